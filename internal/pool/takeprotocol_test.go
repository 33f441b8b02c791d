package pool

import (
	"slices"
	"strings"
	"testing"

	"poold/internal/redisdb"
)

// Both sides of a take mean the same: each value has a name, and take.lua reads each of
// them. That it reads no other is checked whenever the script is loaded.
func TestBothSidesOfATake(t *testing.T) {
	script := redisdb.Source(sources, "take")
	sizes := map[string]int{"KEY": keySize, "CALL": callSize, "DEPARTURE": departureSize, "OUTCOME": outcomeRefused, "WAITER": waiterSize, "REPLY": replyHead}
	for group, names := range takeNames {
		if len(names) != sizes[group] || slices.Contains(names, "") {
			t.Errorf("%s has %d values, of which these have a name: %q", group, sizes[group], names)
		}
		for i, name := range names {
			if slices.Index(names, name) != i {
				t.Errorf("%s.%s stands for two values", group, name)
			}
			// What the answer begins with is written as it stands.
			if group != "REPLY" && !strings.Contains(script, group+"."+name) {
				t.Errorf("take.lua does not read %s.%s", group, name)
			}
		}
	}
	for _, word := range answerWords {
		if !strings.Contains(script, "ANSWER."+word) {
			t.Errorf("take.lua never answers %q", word)
		}
	}
	if got := resolveNames("KEYS[KEY.tokens], ARGV[at + WAITER.holder], at + WAITER.size, {ANSWER.none, ''}"); got != "KEYS[1], ARGV[at + 6], at + 7, {'none', ''}" {
		t.Errorf("the names are resolved to %s", got)
	}
	for _, wrong := range []string{"CALL.nothing", "WATER.ticket", "ANSWER.size"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is not refused", wrong)
				}
			}()
			resolveNames(wrong)
		}()
	}
}
