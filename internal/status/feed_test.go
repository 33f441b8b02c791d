package status

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// runFeed runs a Feed of these sources until the bubble ends.
func runFeed(t *testing.T, s Sources) *Feed {
	f := NewFeed(NewCollector(s))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return f
}

type decodedEvent struct {
	Document
	Gone []string `json:"gone"`

	name string
	text string
}

func next(t *testing.T, r *Reader) decodedEvent {
	t.Helper()
	<-r.Changed()
	event := r.Event()
	e := decodedEvent{name: event.Name, text: string(event.Data)}
	if err := json.Unmarshal(event.Data, &e); err != nil {
		t.Fatalf("%v: %s", err, event.Data)
	}
	if strings.ContainsAny(e.text, "\r\n") {
		t.Errorf("an event in more than one line: %q", e.text)
	}
	return e
}

func (e *decodedEvent) names() string {
	list := []string{}
	for _, target := range e.Targets {
		list = append(list, target.Name)
	}
	return fmt.Sprint(list, e.Gone)
}

// An event contains exactly the changes since the last event. A different next_expiry_s is no
// change. While nothing changes, the reader gets a new as_of at intervals of beatEvery.
func TestFeedSendsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(newSet(newTarget("a"), newTarget("b"), newTarget("c")))
		file, _ := s.File.(*fixedFile)
		id := file.set.Targets[1].ID
		stock.change(id, pool.Stock{Fresh: 1, NextExpiry: time.Minute})
		f := runFeed(t, s)
		r := f.Follow("", nil, true)
		defer r.Close()
		first := next(t, r)
		if whole := string(encoded(t, f.snapshots.Snapshot(t.Context()))); first.name != EventStatus || first.text+"\n" != whole {
			t.Fatalf("%s %s\nwant %s", first.name, first.text, whole)
		}
		stock.change(id, pool.Stock{Fresh: 1, NextExpiry: 55 * time.Second})
		began := time.Now()
		e := next(t, r)
		if e.name != EventChange || e.text != fmt.Sprintf(`{"as_of":%q}`, e.AsOf) || time.Since(began) < heartbeatEvery-time.Second || time.Since(began) > heartbeatEvery+feedPace {
			t.Errorf("without a change: after %s %s %s", time.Since(began), e.name, e.text)
		}
		stock.change(id, pool.Stock{Fresh: 2, NextExpiry: 55 * time.Second})
		began = time.Now()
		if e = next(t, r); e.name != EventChange || e.names() != "[b] []" || e.Targets[0].Fresh != 2 || e.Targets[0].Owner != "qa@example.com" || strings.Contains(e.text, `"providers"`) || time.Since(began) > 2*feedPace {
			t.Errorf("after %s %s %s", time.Since(began), e.name, e.text)
		}
		set := newSet(newTarget("aa"), newTarget("b"), newTarget("d"))
		set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "news"}}
		file.edit(set)
		if e = next(t, r); e.names() != "[aa d] [a c]" || len(e.Config.Warnings) != 1 {
			t.Errorf("%s %s", e.name, e.text)
		}
	})
}

// If a reader has missed an edition, its next event is the whole document. The events after this
// one are changes again.
func TestFeedAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(newSet(newTarget("a"), newTarget("b")))
		file, _ := s.File.(*fixedFile)
		f := runFeed(t, s)
		r := f.Follow("", nil, true)
		defer r.Close()
		next(t, r)
		change := func(fresh int) {
			stock.change(file.set.Targets[0].ID, pool.Stock{Fresh: fresh})
			time.Sleep(2 * feedPace)
		}
		change(1)
		change(2)
		if e := next(t, r); e.name != EventStatus || len(e.Targets) != 2 || e.Targets[0].Fresh != 2 {
			t.Errorf("%s %s", e.name, e.text)
		}
		change(3)
		if e := next(t, r); e.name != EventChange || e.names() != "[a] []" || e.Targets[0].Fresh != 3 {
			t.Errorf("%s %s", e.name, e.text)
		}
	})
}

// A reader of some targets gets no data and no change of other targets.
func TestFeedIsFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(newSet(newTarget("public"), newTarget("secret")))
		file, _ := s.File.(*fixedFile)
		f := runFeed(t, s)
		all := f.Follow("", nil, true)
		defer all.Close()
		some := f.Follow("public", func(name string) bool { return name == "public" }, true)
		defer some.Close()
		next(t, all)
		if e := next(t, some); e.names() != "[public] []" || strings.Contains(e.text, "secret") || e.Dedup != nil {
			t.Errorf("%s", e.text)
		}
		stock.change(file.set.Targets[1].ID, pool.Stock{Fresh: 3})
		if e := next(t, all); e.names() != "[secret] []" {
			t.Errorf("%s", e.text)
		}
		if e := next(t, some); e.name != EventChange || e.text != fmt.Sprintf(`{"as_of":%q}`, e.AsOf) {
			t.Errorf("%s", e.text)
		}
	})
}

// Readers with and without minutes share the snapshots. The minutes are omitted once for each
// snapshot, and from no other reader's events.
func TestFeedOmitsMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(newSet(newTarget("a"), newTarget("b")))
		f := runFeed(t, s)
		whole, brief := f.Follow("", nil, true), f.Follow("", nil, false)
		defer brief.Close()
		one := f.snapshots.Snapshot(t.Context())
		if first, e := next(t, whole), next(t, brief); !strings.Contains(first.text, `"minutes":[]`) ||
			strings.ReplaceAll(first.text, `,"minutes":[]`, "") != e.text || one.Document.Targets[0].Hour.Minutes == nil {
			t.Errorf("%s\nwithout minutes: %s", first.text, e.text)
		}
		if first, second := one.WithoutMinutes(), one.WithoutMinutes(); first != second {
			t.Error("the minutes are omitted twice")
		}
		stock.change(s.File.Current().Targets[1].ID, pool.Stock{Fresh: 2})
		if first, e := next(t, whole), next(t, brief); first.names() != "[b] []" || strings.ReplaceAll(first.text, `,"minutes":[]`, "") != e.text {
			t.Errorf("%s\nwithout minutes: %s", first.text, e.text)
		}
		whole.Close()
		if len(f.views) != 1 {
			t.Errorf("%d views of one reader", len(f.views))
		}
	})
}

// A hundred readers cost as many surveys as one reader. Without a reader there are no surveys. A
// reader gets at most four events a second.
func TestFeedIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []targets.Target
		for i := range 500 {
			list = append(list, newTarget(fmt.Sprintf("t%03d", i)))
		}
		s, stock := sources(newSet(list...))
		id := list[7].ID
		changing := pool.Stock{}
		stock.before = func(context.Context) error {
			changing.Fresh++
			stock.change(id, changing)
			return nil
		}
		f := runFeed(t, s)
		time.Sleep(time.Minute)
		if n := stock.surveys.Load(); n != 0 {
			t.Fatalf("%d surveys without a reader", n)
		}
		cost := func(readers int) (surveys int64, most int) {
			began := stock.surveys.Load()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			events := make([]int, readers)
			var reading sync.WaitGroup
			for i := range readers {
				reading.Go(func() {
					name := map[bool]string{true: "odd"}[i%2 == 1]
					r := f.Follow(name, map[string]func(string) bool{"odd": func(string) bool { return true }}[name], true)
					defer r.Close()
					for {
						select {
						case <-ctx.Done():
							return
						case <-r.Changed():
						}
						r.Event()
						events[i]++
					}
				})
			}
			reading.Wait()
			time.Sleep(time.Second)
			return stock.surveys.Load() - began, slices.Max(events)
		}
		one, most := cost(1)
		hundred, mostOf := cost(100)
		if one < 10 || float64(hundred) > 1.1*float64(one) || most > 41 || mostOf > 41 || mostOf < 30 {
			t.Errorf("one reader: %d surveys, %d events; a hundred: %d, %d", one, most, hundred, mostOf)
		}
		before := stock.surveys.Load()
		time.Sleep(time.Minute)
		if n := stock.surveys.Load() - before; n > 0 || len(f.views) > 0 {
			t.Errorf("when all have gone: %d surveys, %d views", n, len(f.views))
		}
	})
}

// A Copy of a feed's events equals the document after each change.
func TestCopyFollowsTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(newSet(newTarget("a"), newTarget("b"), newTarget("c")))
		file, _ := s.File.(*fixedFile)
		whole := file.set
		f := runFeed(t, s)
		r := f.Follow("", nil, true)
		defer r.Close()
		var copied Copy
		follows := func(step string) {
			t.Helper()
			<-r.Changed()
			event := r.Event()
			if err := copied.Take(event.Name, event.Data); err != nil {
				t.Fatal(step, err)
			}
			var want Document
			if err := json.Unmarshal(encoded(t, f.snapshots.Snapshot(t.Context())), &want); err != nil {
				t.Fatal(err)
			}
			got, err := copied.Document()
			if err != nil {
				t.Fatal(step, err)
			}
			got.AsOf = want.AsOf
			if !reflect.DeepEqual(got, &want) {
				t.Errorf("%s:\n%+v\nwant\n%+v", step, got, want)
			}
		}
		follows("the whole document")
		stock.change(whole.Targets[1].ID, pool.Stock{Fresh: 4})
		follows("a target changed")
		file.edit(&targets.Set{Targets: whole.Targets[1:]})
		follows("a target is gone")
		file.edit(whole)
		follows("it is back")
		file.edit(newSet(newTarget("b"), newTarget("c"), newTarget("d")))
		follows("one is new and one is gone")
		for step := range 9 {
			stock.change(whole.Targets[step%3].ID, pool.Stock{Fresh: 5 + step, Figures: pool.Figures{Requests: int64(step)}})
			if step%3 > 0 {
				follows(fmt.Sprint("step ", step))
			}
		}
	})
}

// oddBalance is a buyer. While the field `on` is true, the balance of the providers is a number
// that JSON cannot represent.
type oddBalance struct {
	*fixedBuyer
	on *atomic.Bool
}

func (o oddBalance) Providers(context.Context, time.Time) []purchase.Status {
	state := provider.State{Kind: provider.StateOK}
	if nan := math.NaN(); o.on.Load() {
		state.Balance = &nan
	}
	return []purchase.Status{{Name: "solver", State: state, Concurrency: 20}}
}

// A figure without a JSON form is logged and sent to no reader. The next snapshot without such a
// figure is sent.
func TestAFigureWithoutAJSONFormIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Log
		s, _ := sources(newSet(newTarget("a"), newTarget("b")))
		s.Log = log.Logger()
		var broken atomic.Bool
		broken.Store(true)
		buyer, _ := s.Purchases.(*fixedBuyer)
		s.Purchases = oddBalance{buyer, &broken}
		f := runFeed(t, s)
		r := f.Follow("", nil, true)
		defer r.Close()
		select {
		case <-r.Changed():
			t.Fatalf("sent %s", r.Event().Data)
		case <-time.After(time.Second):
		}
		if log.Count("level=ERROR", "strictjson", "NaN") == 0 {
			t.Errorf("logged %s", log.String())
		}
		broken.Store(false)
		if e := next(t, r); e.name != EventStatus || e.names() != "[a b] []" {
			t.Errorf("%s %s", e.name, e.text)
		}
	})
}

// Invalid data is an error; events of other names are ignored.
func TestCopyRefusesInvalidEvents(t *testing.T) {
	var none Copy
	if err := none.Take("news", []byte("<html>")); err != nil {
		t.Error(err)
	}
	for _, data := range []string{"<html>", "[]", `{"targets":5}`, `{"targets":["a"]}`, `{"targets":[{"name":"a","fresh":"x"}]}`} {
		if err := new(Copy).Take(EventStatus, []byte(data)); err == nil {
			t.Errorf("%s is taken for a document", data)
		}
	}
	if err := none.Take(EventChange, []byte("{}")); err == nil {
		t.Error("a change of nothing is taken")
	}
	if err := none.Take(EventStatus, []byte(`{"targets":[{"name":"a"}],"dead_letters":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := none.Document(); err == nil {
		t.Error("a text is taken for a number")
	}
}

// Targets are sorted by the urgency of their states. A target with a mark comes before paused and
// ok targets. The sort is stable.
func TestProblemsFirst(t *testing.T) {
	list := []Target{
		{Name: "idle", State: StateIdle}, {Name: "ok 1", State: "ok"}, {Name: "paused", State: "paused"}, {Name: "ok 2", State: "ok"},
		{Name: "marked", State: "ok", Marks: []string{markFailing}}, {Name: "budget", State: "budget"},
		{Name: "starved", State: "starved"}, {Name: "refused", State: "refused", Marks: []string{markFailing}}, {Name: "marked idle", State: StateIdle, Marks: []string{markRejected}},
	}
	names := ""
	for _, target := range ProblemsFirst(list) {
		names += target.Name + ", "
	}
	if names != "refused, starved, budget, marked, marked idle, paused, ok 1, ok 2, idle, " || list[0].Name != "idle" {
		t.Error(names)
	}
}
