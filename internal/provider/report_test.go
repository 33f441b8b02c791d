package provider

import (
	"context"
	"errors"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// TestRequests has the calls of reports.
func TestATaskWithoutAnIDHasNoReport(t *testing.T) {
	c, _, w, _ := newScriptedClient(t, targets.Provider{})
	if err := c.Report(context.Background(), "", captcha.Turnstile, true); !errors.Is(err, ErrNoReport) || w.count() != 0 {
		t.Errorf("a task without an id: %v", err)
	}
}
