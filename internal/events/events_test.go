package events_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"poold/internal/events"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// replica is one process with its own connection to Redis.
type replica struct {
	*events.Log
	db  *redisdb.DB
	log *testkit.Log
}

// newReplica returns a replica that writes its events until the test ends.
func newReplica(t *testing.T, p redistest.Place) *replica {
	t.Helper()
	r := &replica{log: new(testkit.Log)}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	db, err := redisdb.Open(redisdb.Options{Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial,
		Prefix: "test", Log: log, Probe: time.Hour})
	testkit.NoError(t, err)
	r.db, r.Log = db, events.NewLog(db, log)
	t.Cleanup(func() { _ = db.Close() })
	testkit.Run(t, r.Run)
	return r
}

// kinds returns the kinds of the events in the list, oldest first.
func (r *replica) kinds(t *testing.T) string {
	t.Helper()
	var kinds []string
	for _, e := range r.recent(t) {
		kinds = append([]string{string(e.Kind)}, kinds...)
	}
	return strings.Join(kinds, " ")
}

func (r *replica) recent(t *testing.T) []events.Event {
	t.Helper()
	list, err := r.Recent(t.Context())
	testkit.NoError(t, err)
	return list
}

// inBubble runs a test with a Redis in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, redis *redistest.Bubble, p redistest.Place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		test(t, redis, redistest.Place{Addresses: redistest.BubbleAddress, Dial: redis.Dial})
	})
}

func TestOnEveryServer(t *testing.T) {
	redistest.OnEvery(t, map[string]func(*testing.T, redistest.Place){"List": testList}, nil)
}

// Events of all replicas are in one list. If two replicas report the same change, the list has one
// event. Each page continues where the previous page ended.
func testList(t *testing.T, p redistest.Place) {
	one, two := newReplica(t, p), newReplica(t, p)
	hostile := "<script>alert(1)</script>\x1b[2J\n\"},{\u202e\xff" + strings.Repeat("x", 1000)
	at := time.Now().Add(-time.Minute)
	one.Note(events.Event{At: at, Kind: events.TargetPaused, Text: hostile})
	two.Note(events.Event{At: at, Kind: events.TargetPaused, Text: "the same moment"})
	testkit.Within(t, 20*time.Second, "two events", func() bool { return len(one.recent(t)) == 2 })
	for _, r := range []*replica{one, two} {
		r.Note(events.Event{Kind: events.ProviderDown, Topic: "provider", State: "down"})
	}
	for _, r := range []*replica{one, two} { // written after the earlier events of each replica
		r.Note(events.Event{Kind: events.TargetFlushed})
	}
	testkit.Within(t, 20*time.Second, "five events", func() bool { return len(one.recent(t)) == 5 })
	one.Note(events.Event{Kind: events.ProviderUp, Topic: "provider", State: "up"})
	testkit.Within(t, 20*time.Second, "the sixth event", func() bool { return len(one.recent(t)) == 6 })
	two.Note(events.Event{Kind: events.ProviderUp, Topic: "provider", State: "up"})
	two.Note(events.Event{Kind: events.TargetResumed})
	testkit.Within(t, 20*time.Second, "the last event", func() bool { return strings.HasSuffix(one.kinds(t), "resumed") })

	list := two.recent(t)
	const want = "target_paused target_paused provider_down target_flushed target_flushed provider_up target_resumed"
	if got := one.kinds(t); got != want || len(list) != 7 {
		t.Errorf("%s, and %d at another replica; want %s", got, len(list), want)
	}
	for _, e := range list[5:] {
		testkit.AtMost(t, "difference of the times of an event", e.At.Sub(at).Abs(), time.Second)
		if !utf8.ValidString(e.Text) || len(e.Text) > 500 {
			t.Errorf("%d bytes", len(e.Text))
		}
	}
}

// While Redis is unavailable, Note returns immediately, and the events are stored later, with their
// true times. The log reports the number of events that were dropped because the queue was full.
func TestEventsWaitForRedis(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, p redistest.Place) {
		r := newReplica(t, p)
		redis.SetDown(true)
		began := time.Now()
		r.Note(events.Event{Kind: events.ReplicaStarted})
		time.Sleep(10 * time.Minute)
		for i := range events.Newest + 6 {
			r.Note(events.Event{Kind: events.TargetFlushed, Actor: fmt.Sprint("key ", i%50)})
		}
		if err := func() error { _, err := r.Recent(t.Context()); return err }(); err == nil {
			t.Error("the list was read while redis is away")
		}
		redis.SetDown(false)
		time.Sleep(time.Minute)
		list := r.recent(t)
		if len(list) != events.Newest || list[len(list)-1].At.Sub(began).Abs() > time.Second {
			t.Errorf("%d events, the first of %v, noted at %v", len(list), list[len(list)-1].At, began)
		}
		testkit.Equal(t, "lost events that are in the log", r.log.Count("level=WARN", "missing in the list"), 7)
		r.Note(events.Event{Kind: events.TargetResumed})
		time.Sleep(time.Second)
		if list := r.recent(t); len(list) != events.Newest || list[0].Kind != events.TargetResumed {
			t.Errorf("%d events after one more", len(list))
		}
	})
}

// An actor with many changes of one kind displaces only its own earlier changes of this kind.
func TestOneActorDoesNotDisplaceOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redistest.Bubble, p redistest.Place) {
		r := newReplica(t, p)
		r.Note(events.Event{Kind: events.TargetPaused, Actor: "key b<", Text: "the other's"})
		for i := range 60 {
			r.Note(events.Event{Kind: events.TargetPaused, Actor: "key a<", Text: fmt.Sprint(i)})
			r.Note(events.Event{Kind: events.TargetResumed, Actor: "key a<", Text: `"kind":"target_paused","actor":"key b<"`})
		}
		time.Sleep(time.Minute)
		list := r.recent(t)
		if n := len(list); n != 101 || list[n-1].Text != "the other's" || list[n-2].Text != "10" || list[1].Text != "59" {
			t.Errorf("%d events: %+v", n, list[max(0, n-3):])
		}
		for i, e := range list[1:] { // although Redis' clock may stand still, or go back
			testkit.Equal(t, "an event has another ID than the one after it", e.ID != list[i].ID, true)
		}
	})
}

// The list has no event that is older than 30 days.
func TestListForgets(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redistest.Bubble, p redistest.Place) {
		r := newReplica(t, p)
		for i := range 5 {
			r.Note(events.Event{Kind: events.TargetPaused, Text: fmt.Sprint(i)})
			time.Sleep(11 * 24 * time.Hour)
		}
		if list := r.recent(t); len(list) != 2 || list[1].Text != "3" {
			t.Errorf("%d events of the last 30 days, want 2: %v", len(list), list)
		}
	})
}

// A replica notes an equal change of a topic again only after an hour, even if another replica
// noted the first one.
func TestEqualChangesAreOneEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redistest.Bubble, p redistest.Place) {
		one, two := newReplica(t, p), newReplica(t, p)
		used := events.Event{Kind: events.BudgetUsedUp, Topic: "budget", State: "used up"}
		for _, after := range []time.Duration{0, 59 * time.Minute, 2 * time.Minute} {
			time.Sleep(after)
			for _, r := range []*replica{one, two, one} {
				r.Note(used)
				time.Sleep(time.Second)
			}
		}
		testkit.Equal(t, "kinds", one.kinds(t), "budget_used_up budget_used_up")
		low := events.Event{Kind: events.BalanceLow, Topic: "balance", State: "low", Lasts: 48 * time.Hour}
		enough := events.Event{Kind: events.BalanceOK, Topic: "balance", State: "enough", Lasts: 48 * time.Hour}
		for i, e := range []events.Event{enough, low, low, enough, low} {
			[]*replica{one, two}[i%2].Note(e)
			time.Sleep(2 * time.Hour)
		}
		// The first all-clear has nothing to end. A budget that is used up is also nearly used up.
		near := events.Event{Kind: events.BudgetNear, Topic: "money", State: "near", Unless: "used up"}
		for _, e := range []events.Event{near, {Kind: events.BudgetUsedUp, Topic: "money", State: "used up"}, near} {
			for _, r := range []*replica{one, two} {
				r.Note(e)
				time.Sleep(time.Second)
			}
		}
		testkit.Equal(t, "kinds", one.kinds(t),
			"budget_used_up budget_used_up balance_low balance_ok balance_low budget_near budget_used_up")
	})
}
