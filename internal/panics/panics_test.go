package panics_test

import (
	"errors"
	"testing"

	"poold/internal/panics"
	"poold/internal/testkit"
)

func TestContain(t *testing.T) {
	var log testkit.Log
	if err := panics.Contain(log.Logger(), "panic in a part", func() {}); err != nil || log.String() != "" {
		t.Errorf("%v, logged %s", err, log.String())
	}
	err := panics.Contain(log.Logger(), "panic in a part", func() { panic("of a test") })
	if !errors.Is(err, panics.ErrFault) || log.Count("panic in a part", `err="of a test"`, "TestContain") != 1 {
		t.Errorf("%v, logged %s", err, log.String())
	}
}
