package targets

import (
	"strings"
	"testing"
	"time"
)

// The defaults may have keys for adaptive targets, which fixed targets ignore.
func TestFixedTargetsIgnoreAdaptiveDefaults(t *testing.T) {
	text := strings.Replace(minimal("depth: 60", "refill: adaptive"), "targets:\n",
		"defaults: {min: 2, hit_rate: 0.99, max_waste: 7.5, idle_after: 1h}\ntargets:\n", 1) + `  plain:
    type: recaptcha_v2
    sitekey: k
    pageurl: https://staging.example.com/plain
    owner: qa@example.com
    depth: 1
`
	set := mustParse(t, text, References{})
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
