//go:build !race

package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// used returns a target with days of requests.
func used() *target {
	x, dice := newTarget(nil), rand.New(rand.NewPCG(1, 0))
	for i := range 3000 {
		x.hits(1, 0.1+dice.ExpFloat64()*float64(1+i%300))
	}
	x.c.Totals.Failed, x.c.Totals.Expired = 3, 300
	x.learn()
	x.l.permits.gap = 3.5
	return x
}

// A restored state wants the same as the saved one, in at most 4 KB, and learns the events since.
func TestSavedStateIsTheSame(t *testing.T) {
	x := used()
	data := x.l.Save()
	t.Logf("%d requests in %d bytes", len(x.l.memory.entries), len(data))
	if len(data) > MostSaved || len(x.l.memory.entries) < 1000 {
		t.Errorf("%d entries in %d bytes", len(x.l.memory.entries), len(data))
	}
	restored := func() *target {
		l, err := Restore(x.p, data, after(x.at))
		testkit.NoError(t, err)
		return &target{x.p, l, x.c, x.at}
	}
	again := restored()
	testkit.Equal(t, "saved again", string(again.l.Save()), string(data))
	x.learn()
	again.learn()
	for _, later := range []float64{0, 1, 15, 400} {
		x.at += later
		again.at += later
		if got, want := again.decide(), x.decide(); got.Want != want.Want || got.Credit != want.Credit {
			t.Errorf("after %g s: %+v, want %+v", later, got, want)
		}
	}
	more := restored()
	before := more.l.memory.countAt(unix(after(more.at)))
	more.hits(20, 0.01)
	if got := more.l.memory.count - before; got < 18 || got > 21 {
		t.Errorf("20 requests since then count as %g", got)
	}
	early, err := Restore(x.p, data, after(100))
	if err != nil || early.memory.last != unix(after(100)) {
		t.Errorf("a saved time ahead is %v, %v", early.memory.last, err)
	}
}

// Rare requests with long gaps and many at once need the most bytes each; the oldest ones are left out.
func TestSavedStateIsSmall(t *testing.T) {
	x := newTarget(nil)
	for range 2000 {
		x.c.Totals.Requests += 1 << 40
		x.learn()
		x.at += 1e7
	}
	testkit.AtMost(t, "bytes", len(x.l.Save()), MostSaved)
}

// A state that another version saved is learned again.
func TestSavedStateOfAnotherVersion(t *testing.T) {
	x := used()
	for _, data := range []string{"", "{}", strings.Replace(string(x.l.Save()), `"version":3`, `"version":4`, 1)} {
		if l, err := Restore(x.p, []byte(data), after(x.at)); err == nil || l == nil || len(l.memory.entries) > 0 {
			t.Errorf("%.20s: %v", data, err)
		}
	}
}
