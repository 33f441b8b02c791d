package refill

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// The only cost of an idle target in Redis is 1.5 looks a minute. Once an hour, a look extends the life of the
// target's keys. TestCosts of package pool says what a look costs.
func TestAnIdleTargetCostsOnlyLooks(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 100, func(t *testing.T, w *scenario) {
		const many, perHour = 4, 90 * 4 // looks
		list := lasting(many, 1, 20*time.Hour)
		w.apply(list...)
		w.after(quietRound)
		var mu sync.Mutex
		commands := map[string]int{} // calls that name an identity of the targets
		w.redis.SetAnswer(func(command string, args []string) string {
			about := func(x targets.Target) bool { return strings.Contains(strings.Join(args, " "), string(x.ID)) }
			if slices.ContainsFunc(list, about) {
				mu.Lock()
				defer mu.Unlock()
				commands[command]++
			}
			return ""
		})
		keeps := func() (n int) { w.store.with(func() { n = w.store.keeps }); return n }
		before := keeps()
		w.after(time.Hour)
		w.redis.SetAnswer(nil)
		mu.Lock()
		defer mu.Unlock()
		looks := commands["EVALSHA"]
		if len(commands) != 1 || looks < perHour*97/100 || looks > perHour*103/100 {
			t.Errorf("%v in an hour", commands)
		}
		if n := keeps() - before; n != many {
			t.Errorf("%d looks extended the life of keys", n)
		}
	})
}
