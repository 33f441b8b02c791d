package provider

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/targets"
)

// pauseOf returns the pause that a delay lengthens by at most 20 %.
func pauseOf(delay time.Duration) time.Duration {
	for _, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
		5 * time.Minute, 10 * time.Minute} {
		if delay >= pause && delay <= pause+pause/5 {
			return pause
		}
	}
	return delay
}

// Each code of the profiles, and an unknown one, gives the same error in each form of each protocol. testdata/codes.txt
// has its class and the pause for captchaai, 2captcha and another service.
func TestEveryCode(t *testing.T) {
	tested := map[string]bool{}
	checkReplies(t, "codes.txt", func(_ []string, code string) string {
		tested[code] = true
		var outcomes []string
		for _, name := range []string{captchaAI, twoCaptcha, other} {
			var same []string
			for _, d := range dialects() {
				for _, form := range d.refusals {
					c, j, _, says := newScriptedClient(t, targets.Provider{Service: name, Protocol: d.api})
					says(http.StatusOK, strings.ReplaceAll(form, "CODE", code))
					e := faultOf(t, submitOne(t, c))
					if e.Code != code || e.Unknown || j.last() != "submit "+e.Class.String() {
						t.Errorf("%s: %s of %s gives %q unknown=%v, observed %s", name, form, code, e.Code, e.Unknown, j.last())
					}
					same = append(same, fmt.Sprint(e.Class, " ", pauseOf(e.Delay)))
				}
			}
			outcomes = append(outcomes, slices.Compact(same)...)
		}
		return strings.Join(outcomes, ", ")
	})
	for code := range faults {
		if !tested[code] {
			t.Errorf("%s is in the profiles and not in testdata/codes.txt", code)
		}
	}
}

func TestVariantsOfACode(t *testing.T) {
	for text, want := range map[string]Class{
		"ERROR:1003":                        Account,
		"ERROR: 1003 come back later":       Account,
		"ERROR_PAGEURL: no such page":       Parameters,
		"ERROR_ZERO_BALANCE|0":              Capacity,
		"  ERROR_WRONG_USER_KEY\n":          Account,
		"ERROR: 9999":                       Task,
		"ERROR_" + strings.Repeat("X", 500): Task,
	} {
		c, _, _, reply := newScriptedClient(t, targets.Provider{})
		reply(http.StatusOK, text)
		e := faultOf(t, submitOne(t, c))
		if e.Class != want || e.Unknown || len(e.Code) > 100 {
			t.Errorf("%q gives %v unknown=%v with a code of %d characters, want %v", text, e.Class, e.Unknown, len(e.Code), want)
		}
	}
}
