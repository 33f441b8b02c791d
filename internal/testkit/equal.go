package testkit

import "testing"

// Equal reports a failure unless two values are equal. The argument `what` names the value in the failure message.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
