package targets

import (
	"fmt"
	"reflect"
	"testing"
)

func windowText(cron string, tokens int, long string) string {
	return fmt.Sprintf("{cron: %q, tokens: %d, for: %s}", cron, tokens, long)
}

func parseWarm(t *testing.T, cron string, tokens int, long string) Warm {
	t.Helper()
	return mustParse(t, minimal("warm: ["+windowText(cron, tokens, long)+"]"), References{}).Targets[0].Warm[0]
}

// The windows of a target replace the windows that it would inherit. The windows of the defaults do
// not change.
func TestTargetReplacesTheWindowsOfTheDefaults(t *testing.T) {
	second := func(lines string) string {
		return "  other:\n    type: recaptcha_v2\n    sitekey: k\n    pageurl: https://staging.example.com/o\n    owner: qa@example.com\n" + lines
	}
	defaults := "defaults:\n  warm: [" + windowText("0 8 * * *", 10, "30m") + ", " + windowText("0 9 * * *", 11, "30m") + "]\n"
	for _, tc := range []struct {
		name, own string
		want      []Warm
	}{
		{"inherited", "", []Warm{parseWarm(t, "0 8 * * *", 10, "30m"), parseWarm(t, "0 9 * * *", 11, "30m")}},
		{"replaced", "    warm: [" + windowText("0 7 * * *", 8, "1h") + "]\n", []Warm{parseWarm(t, "0 7 * * *", 8, "1h")}},
		{"switched off", "    warm: []\n", nil},
		{"switched off by comments", "    warm:\n    # - none\n", nil},
	} {
		set := mustParse(t, defaults+minimal()+second(tc.own), References{})
		if got := set.Targets[1].Warm; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if got := set.Targets[0].Warm; len(got) != 2 || got[0].Tokens != 10 || got[1].Tokens != 11 {
			t.Errorf("%s: the other target has %+v", tc.name, got)
		}
	}
	if got := mustParse(t, minimal(), References{}).Targets[0].Warm; got != nil {
		t.Errorf("without the key: %+v", got)
	}
}

// Two parses of one file return equal targets. Otherwise every reload would restart the workers.
// Targets are not equal if a key of a window differs.
func TestTargetsAreEqualAfterAnotherParse(t *testing.T) {
	parse := func(lines ...string) Target { return mustParse(t, minimal(lines...), References{}).Targets[0] }
	base := "warm: [" + windowText("CRON_TZ=Asia/Tokyo 0 8 * * *", 10, "30m") + "]"
	if !reflect.DeepEqual(parse(base), parse(base)) {
		t.Error("two readings of one file differ")
	}
	for _, other := range []string{
		"warm: []", "budget: {per_day: 6}",
		"warm: [" + windowText("CRON_TZ=Asia/Tokyo 0 9 * * *", 10, "30m") + "]",
		"warm: [" + windowText("CRON_TZ=Asia/Seoul 0 8 * * *", 10, "30m") + "]",
		"warm: [" + windowText("CRON_TZ=Asia/Tokyo 0 8 * * *", 11, "30m") + "]",
		"warm: [" + windowText("CRON_TZ=Asia/Tokyo 0 8 * * *", 10, "31m") + "]",
	} {
		if reflect.DeepEqual(parse(base), parse(other)) {
			t.Errorf("the same with %s", other)
		}
	}
}
