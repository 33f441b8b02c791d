package targets

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // the container image has no time zone files

	"github.com/robfig/cron/v3"
)

const (
	// MostDepth is the maximum number of tokens that a target can keep, also in a warm window.
	MostDepth = 10000

	// DefaultHitRate is the default of hit_rate.
	DefaultHitRate = 0.97
	// DefaultMaxWaste is the default of max_waste.
	DefaultMaxWaste = 3.0
	// MostMaxWaste is the maximum value of max_waste.
	MostMaxWaste = 1000
)

// refillRules checks the rules between the keys that control the refill of a target.
func (t *targetEntry) refillRules(inherited entry) {
	if t.hasInvalid("refill") || inherited.hasInvalid("refill") {
		return
	}
	if t.Refill == RefillFixed {
		for _, name := range []string{"min", "hit_rate", "max_waste"} {
			// The rule checks only the target's own keys, because the defaults may have such a key
			// for other targets.
			if t.hasKey(name) {
				t.firstEntry(name).fail("belongs to refill: adaptive: remove it, or set refill")
			}
		}
		t.Min = 0
		return
	}
	if !t.hasKey("depth") {
		t.r.warn(t.line, "%s.depth: is inherited (%d): with refill: adaptive it limits the tokens kept and on order, so set it in the target",
			t.path, t.Depth)
	}
	if t.hasInvalid("min", "depth", "warm") || inherited.hasInvalid("min", "depth", "warm") {
		return
	}
	if t.Min <= t.Depth {
		if t.hasKey("depth") {
			t.roomRule()
		}
		return
	}
	if t.hasKey("min") {
		t.firstEntry("min").fail("must not exceed depth (%d of %d), which limits the tokens kept", t.Min, t.Depth)
		return
	}
	t.firstEntry("depth").fail("must not be below min (%d of %d), which is always kept", t.Depth, t.Min)
}

// roomRule warns if the depth is too low to replace the kept tokens before they expire. The depth
// limits tokens and orders together.
func (t *targetEntry) roomRule() {
	kept := t.Min
	for _, w := range t.Warm {
		kept = max(kept, w.Tokens)
	}
	// The lead time is typically about a quarter of the lifetime.
	if enough := kept + (kept+3)/4; t.Depth < enough {
		t.r.warn(t.line, "%s: min or warm keep %d tokens, but depth (%d) counts orders too: fewer are ready while some are renewed, so set depth to %d or more",
			t.path, kept, t.Depth, enough)
	}
}

// ShortestWindow and LongestWindow limit the length of a warm window.
const (
	ShortestWindow = time.Second
	LongestWindow  = 24 * time.Hour
)

// Warm is a recurring warm window of the file. During the window at least Tokens tokens are kept
// ready. Do not change a Warm, because targets share the windows of the defaults.
type Warm struct {
	Cron   string        `key:"cron" must:"yes" as:"cron" doc:"When the window begins: 'minute hour day month weekday', or @hourly, @daily, @weekly, @monthly, @yearly; UTC unless it begins with CRON_TZ=Europe/Berlin or another zone."`
	Tokens int           `key:"tokens" must:"yes" range:"1 10000" doc:"How many tokens are kept ready."`
	For    time.Duration `key:"for" must:"yes" range:"1s 24h" doc:"How long the window lasts."`
}

// Next returns the start and the end, in UTC, of the first window that ends after t. The window may
// start before t. If windows overlap, Next returns the earliest window. Without a window within
// five years, Next returns times before t.
func (w Warm) Next(t time.Time) (from, until time.Time) {
	if times, err := schedule(w.Cron); err == nil {
		from = times.Next(t.UTC().Add(-w.For))
	}
	return from, from.Add(w.For)
}

// windowRules warns about windows that never end, because the next window starts before the
// previous window ends.
func (t *targetEntry) windowRules() {
	for i, item := range t.firstEntry("warm").items {
		if item.ok && t.Warm[i].alwaysRuns() {
			item.firstEntry("for").warn("the next window begins before this one ends, so the tokens are always kept: " +
				"use depth instead, or min with refill: adaptive")
		}
	}
}

// alwaysRuns reports whether windows begin on every day and each lasts until the next one begins.
// It ignores clock changes.
func (w Warm) alwaysRuns() bool {
	times, _ := schedule(w.Cron)
	const star = 1 << 63 // how the library marks a field with a star
	if times.Dom&times.Month&times.Dow&star == 0 {
		return false
	}
	at := times.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, times.Location))
	for end := at.Add(LongestWindow); at.Before(end); {
		next := times.Next(at)
		if next.Sub(at) > w.For {
			return false
		}
		at = next
	}
	return true
}

// warmRules warns about a window without an effect. A window has no effect if the target always
// keeps as many tokens as the window wants.
func (t *targetEntry) warmRules(inherited entry) {
	others := []string{"refill", "depth", "min", "idle_after"}
	// Windows of the defaults get no warning, because they apply to targets of different depths.
	if !t.hasKey("warm") || t.hasInvalid("warm") || t.hasInvalid(others...) || inherited.hasInvalid(others...) {
		return
	}
	always, key := t.Depth, "depth"
	switch {
	case t.Refill == RefillAdaptive:
		always, key = t.Min, "min"
	case t.IdleAfter > 0:
		return // outside its windows the target may keep no tokens, so every window has an effect
	}
	for i, w := range t.Warm {
		if w.Tokens <= always {
			t.r.warn(t.firstEntry("warm").items[i].line, "%s.warm[%d].tokens: is not above %s (%d of %d), so the window changes nothing",
				t.path, i, key, w.Tokens, always)
		}
	}
}

// schedule parses a cron expression. Its times are in UTC unless it begins with CRON_TZ=ZONE. The
// zone of the machine is never used.
func schedule(text string) (*cron.SpecSchedule, error) {
	zone, fields := "UTC", text
	if rest, ok := strings.CutPrefix(text, "CRON_TZ="); ok {
		zone, fields, _ = strings.Cut(rest, " ")
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == "Local" {
		return nil, errors.New("CRON_TZ= must name a time zone such as Europe/Berlin")
	}
	parsed, err := cron.ParseStandard("CRON_TZ=" + zone + " " + strings.ToLower(fields))
	if err != nil {
		return nil, err
	}
	times, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("@every has no fixed begin")
	}
	if times.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("this day never occurs")
	}
	return times, nil
}

// cronText checks a cron expression that says when windows begin.
func cronText(e scalar) (any, string) {
	_, err := schedule(e.text)
	if err == nil {
		return e.text, ""
	}
	rule := `must be five fields (minute hour day month weekday) such as "55 8 * * 1-5", or @daily and its like` + e.notText()
	if e.literal() && len(e.text) <= maxQuoted && isPrintable(e.text, ' ') {
		rule += ": " + err.Error() // quotes the text
	}
	return nil, rule
}
