package testkit

import (
	"reflect"
	"testing"
)

// Equal reports a failure unless two values are equal. The argument `what` names the value in the failure message.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// DeepEqual does the same as Equal, but compares what slices, maps and pointers refer to.
func DeepEqual[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %#v, want %#v", what, got, want)
	}
}
