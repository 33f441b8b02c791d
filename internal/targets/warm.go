package targets

import (
	"errors"
	"time"

	"poold/internal/targets/cron"
)

const (
	// mostWindows bounds what each look at a target has to go through.
	mostWindows = 20

	// ShortestWindow and LongestWindow are how long a window can run.
	ShortestWindow = time.Second
	LongestWindow  = 24 * time.Hour
)

// Warm is a window in which at least Tokens are kept ready, again and again. Only
// a file makes one, and nobody writes to it: targets share those of the defaults.
type Warm struct {
	Cron   cron.Schedule // when it begins
	Tokens int           // 1 to 10000
	For    time.Duration // how long it runs; 1s to 24h
}

// Next is the first window that is not over at `at`: from is when it begins,
// which may lie before at; until is when it ends, always after at. Both are UTC.
// Where For is longer than the time between two beginnings, windows overlap, and
// the one that began first is told. A Warm that no file made has no windows: both
// times are zero.
func (w Warm) Next(at time.Time) (from, until time.Time) {
	return w.Cron.Window(at, w.For)
}

// windows takes the windows of a target, or those of the defaults, into a list of
// its own, because the one that is there may be shared. An empty one switches those
// of the defaults off.
func (t *rawTarget) windows() {
	if !t.has("warm") {
		return
	}
	t.Warm = nil
	for _, item := range t.items("warm") {
		rec := item.record()
		w := decode[Warm](warmWindow, rec)
		t.Warm = append(t.Warm, w)
		if gap := w.Cron.LongestGap(); item.ok && gap > 0 && gap <= w.For {
			rec.at("for").warn("the next window begins before this one is over (%s), so the tokens are always kept: "+
				"depth says that better, or min with refill: adaptive", short(gap))
		}
	}
}

// warmRules warns of windows in which no more is kept than at any other time.
func (t *rawTarget) warmRules(inherited rawTarget) {
	others := []string{"refill", "depth", "min", "idle_after"}
	// The windows of the defaults are for targets of every depth.
	if !t.has("warm") || t.bad("warm") || t.bad(others...) || inherited.bad(others...) {
		return
	}
	always, key := t.Depth, "depth"
	switch {
	case t.Refill == RefillAdaptive:
		always, key = t.Min, "min"
	case t.IdleAfter > 0:
		return // it is the window that keeps them when nobody asks
	}
	for i, w := range t.Warm {
		if w.Tokens <= always {
			t.r.warn(t.items("warm")[i].line, "%s.warm[%d].tokens: is not above %s (%d of %d), so the window changes nothing",
				t.path, i, key, w.Tokens, always)
		}
	}
}

// cronText is when windows begin, as a cron.Schedule.
var cronText = textual{parse: func(e expansion) (any, string) {
	s, err := cron.Parse(e.text)
	var invalid *cron.Error
	if errors.As(err, &invalid) {
		e.text = invalid.Value
		return nil, invalid.Rule + e.not()
	}
	return s, ""
}}
