package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Equal reports a failure unless two values are equal. The argument `what` names the value in the failure message.
// Texts of several lines are printed one below the other.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got == want {
		return
	}
	form := "%s: %v, want %v"
	if strings.Contains(fmt.Sprint(got, want), "\n") {
		form = "%s\ngot:\n%v\nwant:\n%v"
	}
	t.Errorf(form, what, got, want)
}

// DeepEqual does the same as Equal, but compares what slices, maps and pointers refer to.
func DeepEqual[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %#v, want %#v", what, got, want)
	}
}

// AtLeast reports a failure if a value is less than `least`.
func AtLeast[T cmp.Ordered](t testing.TB, what string, got, least T) {
	t.Helper()
	if got < least {
		t.Errorf("%s: %v, want at least %v", what, got, least)
	}
}

// AtMost reports a failure if a value is more than `most`.
func AtMost[T cmp.Ordered](t testing.TB, what string, got, most T) {
	t.Helper()
	if got > most {
		t.Errorf("%s: %v, want at most %v", what, got, most)
	}
}

// ErrorIs reports a failure unless an error is, or wraps, the wanted one.
func ErrorIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: the error %v, want %v", what, err, want)
	}
}
