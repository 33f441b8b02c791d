//go:build !race

package policy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// used returns a State that has learned from several thousand requests, solves and
// failures.
func used(k Params) (m *State, at time.Time) {
	m = NewState(k)
	at = epoch
	for i := range 6000 {
		at = at.Add(time.Duration(i*i%7919) * time.Millisecond)
		if i%100 == 0 {
			at = at.Add(time.Duration(i/20) * time.Second)
		}
		m.Request(at, true)
		if i%3 == 0 {
			m.Landed(at, time.Duration(10+i%20)*time.Second)
		}
		if i%40 == 0 {
			m.Failed(at)
			m.Expired(at, 2)
		}
	}
	return m, at
}

func usual() Params {
	return Params{Adaptive: true, Depth: 200, HitRate: 0.97, MaxWaste: 3, Usable: 80 * time.Second,
		FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second}
}

func save(t testing.TB, m *State) []byte {
	t.Helper()
	data, err := m.save()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A restored State makes the same plan as the saved State. If the restored State is saved again,
// the data is the same.
func TestSavedStateIsTheSame(t *testing.T) {
	m, at := used(usual())
	m.slots.gap, m.credit.left = 3.5, -20
	m.Failed(at)
	m.Failed(at)
	data := save(t, m)
	t.Logf("%d cells in %d bytes", m.learned.table.known, len(data))
	again, err := Restore(usual(), data, at)
	if err != nil {
		t.Fatal(err)
	}
	if text := unpacked(t, save(t, again)); text != unpacked(t, data) {
		t.Errorf("saved again:\n%.400s\nfirst:\n%.400s", text, unpacked(t, data))
	}
	if m.learned.table.known < 20 || len(m.learned.solves.leads) != leadsKept || m.learned.solves.fails == failPrior {
		t.Fatalf("the State has not learned: %d cells, %d leads", m.learned.table.known, len(m.learned.solves.leads))
	}
	m.planned = 0
	for _, later := range []time.Duration{0, time.Second, 15 * time.Second} { // after a longer time, the plans would differ, because pending samples are not saved
		if got, want := again.Plan(at.Add(later), 0), m.Plan(at.Add(later), 0); got != want {
			t.Errorf("after %v: %+v, want %+v", later, got, want)
		}
	}
}

// A State can be restored even if its histograms were halved many times.
func TestSavedAfterMuchHalving(t *testing.T) {
	m := NewState(usual())
	random := rand.New(rand.NewPCG(1, 0))
	at := 0.0
	for range 20_000 {
		at += random.ExpFloat64()
		m.Request(after(at), true)
	}
	if _, err := Restore(usual(), save(t, m), after(at)); err != nil {
		t.Error(err)
	}
}

// If the usable life has changed since the save, Restore drops the samples of the third horizon.
func TestSavedStateOfAnotherLife(t *testing.T) {
	m, at := used(usual())
	other := usual()
	other.Usable = 200 * time.Second
	again, err := Restore(other, save(t, m), at)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range again.learned.table.cells {
		if c != nil && (c.After[horizons-1].weight != 0 || c.After[0] != m.learned.table.cells[i].After[0]) {
			t.Fatalf("cell %d: %+v", i, c)
		}
	}
}

// Saved times in the future are set to the present.
func TestSavedTimesAheadAreNow(t *testing.T) {
	m, at := used(usual())
	again, err := Restore(usual(), save(t, m), at.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if want := unixSeconds(at.Add(-time.Hour)); again.now != want || again.learned.last != want {
		t.Errorf("now %v, last request %v, want %v", again.now, again.learned.last, want)
	}
}

func TestSavedStateIsChecked(t *testing.T) {
	m, at := used(usual())
	good := save(t, m)
	changed := func(old, to string) []byte {
		text := unpacked(t, good)
		if !strings.Contains(text, old) {
			t.Fatalf("no %q in it", old)
		}
		return packed(t, strings.Replace(text, old, to, 1))
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	cases := map[string]struct {
		data []byte
		want error
	}{
		"nothing":             {nil, ErrSavedCorrupt},
		"half":                {good[:len(good)/2], ErrSavedCorrupt},
		"another program":     {[]byte("{}"), ErrSavedCorrupt},
		"the first version":   {[]byte("pm\x01 and so on"), ErrSavedVersion},
		"a newer version":     {changed(`"version":2`, `"version":3`), ErrSavedVersion},
		"a flipped bit":       {flipped, ErrSavedCorrupt},
		"a huge scale":        {changed(`"scale":`, `"scale":1e9,"was":`), ErrSavedCorrupt},
		"a lead time below 0": {changed(`"leads":[`, `"leads":[-1,`), ErrSavedCorrupt},
		"too many leads":      {changed(`"leads":[`, `"leads":[1,`), ErrSavedCorrupt},
		"no such situation":   {changed(`"cells":{`, `"cells":{"100000":{},`), ErrSavedCorrupt},
		"more late than all":  {changed(`"late":`, `"late":999999,"was":`), ErrSavedCorrupt},
		"ended, not reached":  {changed(`"reached":[`, `"reached":[],"was":[`), ErrSavedCorrupt},
		"more at the end":     {packed(t, unpacked(t, good)+"{}"), ErrSavedCorrupt},
		"endless":             {packed(t, strings.Repeat(" ", 2*savedMostJSON)), ErrSavedCorrupt},
		"too long":            {make([]byte, savedMost+1), ErrSavedCorrupt},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Restore(usual(), c.data, at)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if fresh := NewState(usual()).Plan(at, 0); got == nil || got.Plan(at, 0) != fresh {
				t.Error("did not begin afresh")
			}
		})
	}
}

func unpacked(t testing.TB, data []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Restore either refuses the data or returns a State that works. If this State is saved and
// restored again, the data is the same.
func FuzzRestore(f *testing.F) {
	m, at := used(usual())
	f.Add(unpacked(f, save(f, m)))
	f.Add(unpacked(f, save(f, NewState(usual()))))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Restore(usual(), packed(t, text), at)
		if err != nil {
			return
		}
		again, err := Restore(usual(), save(t, m), at)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(save(t, again), save(t, m)) {
			t.Fatal("saved twice it is another")
		}
		checkWorks(t, again, at)
	})
}

// checkWorks checks that a State works for a while.
func checkWorks(t *testing.T, m *State, at time.Time) {
	t.Helper()
	for i := range 50 {
		at = at.Add(time.Duration(i) * time.Second)
		m.Request(at, true)
		w := m.Plan(at, 0)
		if w.Want < 0 || w.Want > m.params.Depth || w.Lead < 0 || !(w.Risk >= 0 && w.Risk <= 1+1e-9) || w.Look < 0 {
			t.Fatalf("plan %+v", w)
		}
		m.Landed(at, time.Duration(i)*time.Second)
	}
}

// After a time in which another replica watched the target, a tracker loads the state that the
// other replica saved. The tracker does not learn the requests of that time as a burst.
func TestResume(t *testing.T) {
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	p := Params{Adaptive: true, Depth: 50, HitRate: 0.97, MaxWaste: 3, Usable: 80 * time.Second, FirstPoll: 10 * time.Second, PollInterval: 5 * time.Second}
	stock := &Stock{NextExpiry: -1, NextLook: -1}
	follow := func(resume bool) (forecast float64) {
		tracker := NewTracker(p, nil)
		if err := tracker.Load(at, nil); err != nil {
			t.Fatal(err)
		}
		tracker.Learn(at, stock)
		later := at.Add(10 * time.Minute)
		if resume {
			tracker.Resume()
			if !tracker.WantsSaved() {
				t.Error("what others saved is not wanted")
			}
			if err := tracker.Load(later, nil); err != nil {
				t.Fatal(err)
			}
		}
		after := *stock
		after.Figures.Requests, after.Figures.Misses = 500, 500
		tracker.Learn(later, &after)
		return tracker.Decide(later, tracker.Plan(later), &after).Forecast
	}
	if all, none := follow(false), follow(true); none > 0.1 || all < 10 {
		t.Errorf("forecast %v where what others saw is learned again, %v where not", all, none)
	}
}
