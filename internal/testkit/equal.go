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
// Of texts with several lines, the different lines are printed.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got == want {
		return
	}
	if a, b := fmt.Sprint(got), fmt.Sprint(want); strings.Contains(a+b, "\n") {
		_, a, b = differing(a, b)
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", what, a, b)
		return
	}
	t.Errorf("%s: %v, want %v", what, got, want)
}

// DeepEqual does the same as Equal, but compares what slices, maps and pointers refer to. Of structs, the different
// fields are printed.
func DeepEqual[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	fields := ""
	if reflect.TypeFor[T]().Kind() == reflect.Struct {
		for field, b := range reflect.ValueOf(want).Fields() {
			a := reflect.ValueOf(got).FieldByIndex(field.Index)
			if field.IsExported() && !reflect.DeepEqual(a.Interface(), b.Interface()) {
				fields += fmt.Sprintf("\n%s: %v, want %v", field.Name, a, b)
			}
		}
	}
	if fields == "" {
		fields = fmt.Sprintf(": %#v, want %#v", got, want)
	}
	t.Error(what + fields)
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
