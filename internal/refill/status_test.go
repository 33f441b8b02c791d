package refill_test

import (
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The current facts in Redis replace the notes of the last decision. The other tests show what decisions note.
func TestFactsReplaceNotes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	queued := `{"want":7,"state":"starved","reason":"no thread","queued":"2026-01-02T03:04:04Z"}`
	badKey := pool.Brake{Kind: "bad_parameters", Reason: "bad key", Since: now, Every: time.Minute,
		Next: now.Add(time.Minute)}
	for name, c := range map[string]struct {
		change func(t *targets.Target)
		counts pool.Counts
		want   refill.Status
	}{
		"a new target": {want: refill.Status{Want: 5, State: refill.OK}},
		"a new adaptive target": {
			change: func(t *targets.Target) { t.Refill, t.Min = targets.RefillAdaptive, 1 },
			want:   refill.Status{Want: 1, State: refill.OK},
		},
		"a note of another form": {counts: pool.Counts{Status: "?"}, want: refill.Status{Want: 5, State: refill.OK}},
		"a short wait for a thread": {
			counts: pool.Counts{Status: queued, At: now},
			want:   refill.Status{Want: 7, State: refill.OK, Queued: now.Add(-second)},
		},
		"paused by the file": {
			change: func(t *targets.Target) { t.Paused = true }, counts: pool.Counts{Brake: badKey, At: now},
			want: refill.Status{State: refill.Paused, Reason: "paused in the configuration file", Failing: true},
		},
		"refused, and no other provider is asked": {
			change: func(t *targets.Target) { t.ProvidersPolicy = targets.ProvidersOrdered },
			counts: pool.Counts{Brake: badKey, At: now},
			want: refill.Status{Want: 5, State: refill.Refused, Since: now, Until: now.Add(time.Minute), Failing: true,
				Reason: "bad key; a spare provider gets orders only with `providers_policy: cheapest` or `best`"},
		},
		"unknown outcomes": {
			counts: pool.Counts{Orders: 5, Unknown: 2, At: now},
			want: refill.Status{
				Want: 5, State: refill.Starved,
				Reason: "the outcome of 2 of 5 orders in flight is unknown until their timeout: their submits got no clear answer",
			},
		},
		"unknown outcomes, and tokens": {
			counts: pool.Counts{Orders: 5, Unknown: 2, Fresh: 1, At: now}, want: refill.Status{Want: 5, State: refill.OK},
		},
	} {
		one := target("login", 5)
		if c.change != nil {
			c.change(&one)
		}
		testkit.Equal(t, name, refill.StatusOf(&one, &c.counts), c.want)
	}
}
