package panics_test

import (
	"errors"
	"testing"

	"poold/internal/panics"
	"poold/internal/testkit"
)

// A panic is logged with its cause and its stack, and Contain returns an error. Without a panic
// nothing is logged.
func TestAPanicIsLoggedAndReturned(t *testing.T) {
	var log testkit.Log
	if err := panics.Contain(log.Logger(), "panic in a part", func() {}); err != nil || log.String() != "" {
		t.Errorf("%v, logged %s", err, log.String())
	}
	err := panics.Contain(log.Logger(), "panic in a part", func() { panic("of a test") })
	if !errors.Is(err, panics.ErrFault) ||
		log.Count("panic in a part", `err="of a test"`, "TestAPanicIsLoggedAndReturned") != 1 {
		t.Errorf("%v, logged %s", err, log.String())
	}
}

// A recovered panic is logged with the attributes of its caller.
func TestARecoveredPanicIsLoggedWithAttributes(t *testing.T) {
	var log testkit.Log
	panics.Log(log.Logger(), "panic in a part", "of a test", "target", "login")
	if log.Count("panic in a part", `err="of a test"`, "target=login", "stack=") != 1 {
		t.Errorf("logged %s", log.String())
	}
}
