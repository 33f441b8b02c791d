//go:build !race

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
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
	if text := again.l.Save(); !bytes.Equal(text, data) {
		t.Errorf("saved again:\n%s\nfirst:\n%s", text, data)
	}
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

func TestSavedStateIsChecked(t *testing.T) {
	x := used()
	good := string(x.l.Save())
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"nothing":         {"", ErrSavedCorrupt},
		"half":            {good[:len(good)/2], ErrSavedCorrupt},
		"another program": {"{}", ErrSavedVersion},
		"a newer version": {strings.Replace(good, `"version":3`, `"version":4`, 1), ErrSavedVersion},
		"a huge scale":    {strings.Replace(good, `"scale":`, `"scale":1e9,"was":`, 1), ErrSavedCorrupt},
		"a bad history":   {strings.Replace(good, `"history":"`, `"history":"////////////////`, 1), ErrSavedCorrupt},
		"a long history":  {strings.Replace(good, `"history":"`, `"history":"`+strings.Repeat("AAAA", 2000), 1), ErrSavedCorrupt},
	} {
		l, err := Restore(x.p, []byte(c.data), after(x.at))
		if !errors.Is(err, c.want) || l == nil || len(l.memory.entries) > 0 {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Restore refuses the data, or returns a state that works and can be saved.
func FuzzRestore(f *testing.F) {
	f.Add(used().l.Save())
	f.Add(NewLearned(usual()).Save())
	f.Fuzz(func(t *testing.T, data []byte) {
		x := newTarget(nil)
		l, err := Restore(x.p, data, after(1000))
		if err != nil {
			return
		}
		x.l, x.at = l, 1000
		x.c.Totals = l.seen
		for range 20 {
			x.hits(1, 1)
			x.check(t)
		}
		if text := x.l.Save(); len(text) > MostSaved || !json.Valid(text) {
			t.Fatalf("%d bytes: %s", len(text), text)
		}
	})
}
