package targets

import (
	"strings"
	"testing"
	"time"
)

// What adaptive targets need may stand in the defaults, and fixed ones do not
// look at it.
func TestRefillDefaults(t *testing.T) {
	text := strings.Replace(minimal("depth: 60", "refill: adaptive"), "targets:\n",
		"defaults: {min: 2, hit_rate: 0.99, max_waste: 7.5, idle_after: 1h}\ntargets:\n", 1) + `  plain:
    type: recaptcha_v2
    sitekey: k
    pageurl: https://staging.example.com/plain
    owner: qa@example.com
    depth: 1
`
	set := mustParse(t, text, nil)
	if got := set.Targets[0]; got.Refill != RefillAdaptive || got.Min != 2 || got.HitRate != 0.99 || got.MaxWaste != 7.5 ||
		got.IdleAfter != time.Hour || got.Depth != 60 {
		t.Errorf("adaptive: %+v", got)
	}
	if got := set.Targets[1]; got.Refill != RefillFixed || got.Min != 0 || got.IdleAfter != time.Hour {
		t.Errorf("fixed: %+v", got)
	}
	if got := warnings(set); strings.Contains(got, "depth") {
		t.Errorf("warned:\n%s", got)
	}
}

// An adaptive target that only inherits its depth is warned about: five is
// seldom the most that its owner wants ever to be kept.
func TestAdaptiveWithInheritedDepth(t *testing.T) {
	const want = "pools.yaml:4: targets.login.depth: is inherited (5): with refill: adaptive it is the most ever kept and on order, so say how many that shall be\n"
	if got := warnings(mustParse(t, minimal("refill: adaptive"), nil)); !strings.Contains(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := warnings(mustParse(t, minimal("refill: adaptive", "depth: 5"), nil)); strings.Contains(got, "depth") {
		t.Errorf("warned: %s", got)
	}
}

// Tokens that are to be there at any time need room to be replaced in.
func TestRoomForRenewal(t *testing.T) {
	const want = "pools.yaml:4: targets.login: min or warm keep 8 tokens with a depth of 9, which counts orders too: fewer are ready while some are renewed, so say depth: 10 or more\n"
	window := `warm: [{cron: "0 8 * * *", tokens: 8, for: 1h}]`
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"min":             {[]string{"refill: adaptive", "depth: 9", "min: 8"}, want},
		"a window":        {[]string{"refill: adaptive", "depth: 9", window}, want},
		"enough":          {[]string{"refill: adaptive", "depth: 10", "min: 8", window}, ""},
		"fixed":           {[]string{"depth: 5", window}, ""},
		"nothing is kept": {[]string{"refill: adaptive", "depth: 0"}, ""},
	} {
		if got := warnings(mustParse(t, minimal(c.lines...), nil)); !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "renewed") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
