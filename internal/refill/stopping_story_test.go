package refill

import (
	"testing"
	"time"
)

// A replica that stops for some seconds again and again leaves no target unwatched: one whose
// tokens live for 6 s is empty for 3 s at most, also right after the replica returned.
func TestAReplicaThatStopsAndReturns(t *testing.T) {
	long(t)
	play(t, 100, func(t *testing.T, w *scenario) {
		list := lasting(30, 3, 8*time.Second)
		for i := range list {
			list[i].Margin = 2 * time.Second
		}
		w.provider.pace = [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}
		w.provider.lead = func() time.Duration { return time.Second }
		w.apply(list...)
		w.start(list...)
		w.start(list...)
		w.after(10 * time.Second)
		stops := w.all[1].store
		const step = 200 * time.Millisecond
		empty := make([]time.Duration, len(list)) // for how long each target has had neither token nor order
		var longest time.Duration
		for round := range 10 {
			stopped := make(chan struct{})
			stops.with(func() { stops.strangle = stopped })
			returns := 2400*time.Millisecond + time.Duration(round%5)*step
			for now := time.Duration(0); now < 8*time.Second; now += step {
				if now == returns {
					stops.with(func() { stops.strangle = nil })
					close(stopped)
				}
				w.after(step)
				for i := range list {
					if stock := w.stock(list[i]); stock.Fresh+stock.Orders > 0 {
						empty[i] = 0
						continue
					}
					empty[i] += step
					longest = max(longest, empty[i])
				}
			}
		}
		if longest > 3*time.Second {
			t.Errorf("a target had neither token nor order for %v", longest)
		}
	})
}
