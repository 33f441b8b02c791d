package targets

import (
	"errors"
	"time"

	"poold/internal/targets/cron"
)

// ShortestWindow and LongestWindow are how long a window can run.
const (
	ShortestWindow = time.Second
	LongestWindow  = 24 * time.Hour
)

// Warm is a window in which at least Tokens are kept ready, again and again. Only a file
// makes one. Targets share the windows of the defaults, so nothing may write to one.
type Warm struct {
	Cron   cron.Schedule `key:"cron" must:"yes" as:"cron" doc:"When it begins: 'minute hour day month weekday', or @hourly, @daily, @weekly, @monthly, @yearly; UTC unless it begins with CRON_TZ=Europe/Berlin or the like."`
	Tokens int           `key:"tokens" must:"yes" range:"1 10000" doc:"How many are kept ready."`
	For    time.Duration `key:"for" must:"yes" range:"1s 24h" doc:"How long it lasts."`
}

// Next returns the first window that ends after at; see cron.Schedule.Window.
func (w Warm) Next(at time.Time) (from, until time.Time) {
	return w.Cron.Window(at, w.For)
}

// windowRules warns of windows that never end.
func (t *targetEntry) windowRules() {
	for i, item := range t.at("warm").items {
		w := t.Warm[i]
		if gap := w.Cron.LongestGap(); item.ok && gap > 0 && gap <= w.For {
			item.at("for").warn("the next window begins before this one is over (%s), so the tokens are always kept: "+
				"depth says that better, or min with refill: adaptive", short(gap))
		}
	}
}

// warmRules warns of windows that keep no more tokens than the target always keeps.
func (t *targetEntry) warmRules(inherited entry) {
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
		return // outside its windows the target may be empty
	}
	for i, w := range t.Warm {
		if w.Tokens <= always {
			t.r.warn(t.at("warm").items[i].line, "%s.warm[%d].tokens: is not above %s (%d of %d), so the window changes nothing",
				t.path, i, key, w.Tokens, always)
		}
	}
}

// cronText is when windows begin, as a cron.Schedule.
func cronText(e scalar) (any, string) {
	s, err := cron.Parse(e.text)
	var invalid *cron.Error
	if errors.As(err, &invalid) {
		e.text = invalid.Value
		return nil, invalid.Rule + e.not()
	}
	return s, ""
}
