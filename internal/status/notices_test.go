package status

import (
	"strings"
	"testing"

	"poold/internal/purchase"
	"poold/internal/targets"
)

func TestNotices(t *testing.T) {
	for _, c := range []struct {
		api      targets.API
		embedded bool
		want     string
	}{
		{targets.APISimulated, true, "simulated"},
		{targets.APISimulated, false, "simulated"},
		{targets.APILegacy, true, "embedded"},
		{targets.APILegacy, false, ""},
	} {
		set := newSet()
		set.Providers[0].API = c.api
		if c.embedded {
			set.Redis.URL = "embedded"
		}
		notices := strings.Join(waysOfRunning(set, []purchase.Status{{Name: "loud"}}), "\n")
		if !strings.Contains(notices, c.want) || (notices == "") != (c.want == "") || strings.Count(notices, "\n") > 0 {
			t.Errorf("%+v: %q", c, notices)
		}
	}
}

// A provider whose callbacks do not arrive is named.
func TestNoticeOfSilentCallbacks(t *testing.T) {
	set := newSet()
	set.Redis.URL = "redis://example.com"
	notices := waysOfRunning(set, []purchase.Status{{Name: "loud"}, {Name: "quiet", Silent: true}})
	if len(notices) != 1 || !strings.Contains(notices[0], "provider quiet") {
		t.Errorf("notices: %q", notices)
	}
}
