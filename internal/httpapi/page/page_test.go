package page

import (
	"errors"
	"html/template"
	"io/fs"
	"net/http/httptest"
	"testing"
	texttemplate "text/template"

	"poold/internal/httpapi/kernel"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/status"
	"poold/internal/targets"
)

// TestTargetCellsAreEmptyWithoutNews: a target's cells for the wanted tokens and the forecast are
// empty if the wanted number is the depth and no limit applies.
func TestTargetCellsAreEmptyWithoutNews(t *testing.T) {
	adaptive := string(targets.RefillAdaptive)
	for _, c := range []struct {
		target             status.Target
		wants, expectation string
	}{
		{status.Target{Depth: 5, Want: 5}, "", ""},
		{status.Target{Depth: 5, Want: 3, Limit: policy.LimitIdle}, "wants 3", "held by idle"},
		{status.Target{Depth: 1, Want: 5, Warm: 5}, "wants 5, warm", ""},
		{status.Target{Depth: 5, Want: 5, Warm: 5}, "wants 5, warm", ""},
		{status.Target{Depth: 9, Want: 7, Warm: 5, Refill: adaptive, Forecast: 12.346}, "wants 7, warm 5", "expects 12.35 in a lead time, risk 0.0 %"},
		{status.Target{Depth: 9, Want: 0, Warm: 5, Refill: adaptive, State: refill.Paused, Limit: policy.LimitPaused}, "wants 0, warm 5", ""},
		{status.Target{Depth: 9, Refill: adaptive, Forecast: 0.04, Risk: 1, Limit: policy.LimitProbe}, "wants 0", "expects 0.04 in a lead time, risk 100.0 %, held by probe"},
	} {
		if got := wantText(c.target); got != c.wants {
			t.Errorf("%+v: %q", c.target, got)
		}
		if got := expectation(c.target); got != c.expectation {
			t.Errorf("%+v: %q", c.target, got)
		}
	}
	for _, c := range []struct{ fresh, orders, depth, want int }{{3, 1, 5, 60}, {9, 1, 5, 90}, {0, 0, 0, 0}, {5, 0, 5, 100}} {
		if got := share(c.fresh, status.Target{Fresh: c.fresh, InFlight: c.orders, Depth: c.depth}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := share(2, status.Target{Fresh: 2, Depth: 1, Warm: 8}); got != 25 {
		t.Errorf("2 of the 8 that a window wants fill %d %% of the bar", got)
	}
}

// TestPageFailsAsAWhole: if a page cannot be rendered, no part of the page is sent.
func TestPageFailsAsAWhole(t *testing.T) {
	p := &Routes{page: template.Must(template.New("").Parse("half of it {{.Missing}}"))}
	w := httptest.NewRecorder()
	var cause texttemplate.ExecError
	if err := p.writePage(w, &status.Document{}, kernel.Anyone); !errors.As(err, &cause) || w.Body.Len() > 0 || len(w.Header()) > 0 {
		t.Errorf("%v, %v, %q", err, w.Header(), w.Body)
	}
}

func TestUnknownMomentIsNever(t *testing.T) {
	for stamp, want := range map[string]string{"": "never", "2026-01-02T03:04:05.678Z": "2026-01-02 03:04:05 UTC"} {
		if got := moment(stamp); got != want {
			t.Errorf("%q: %q", stamp, got)
		}
	}
}

// TestUnknownAssetPanics: a route for a file that the binary lacks is a programming error.
func TestUnknownAssetPanics(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}()
	Asset("missing.js", "text/javascript")
}
