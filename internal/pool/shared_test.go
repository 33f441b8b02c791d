package pool

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"poold/internal/testkit"
)

// gather starts calls of Take that wait with the same Idempotency-Key. It returns when all of them
// are in the queue.
func gather(t *testing.T, s *replica, r Request, callers int) <-chan answer {
	t.Helper()
	results := make(chan answer, callers)
	q := s.queue(r.ID)
	before := listeners(q)
	for range callers {
		go func() {
			token, err := s.Take(t.Context(), r)
			results <- answer{token: token, err: err}
		}()
	}
	testkit.Within(t, 20*time.Second, "all callers in one place", func() bool { return listeners(q) == before+callers })
	return results
}

// listeners counts the callers with an Idempotency-Key that wait in a queue.
func listeners(q *takeQueue) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.shared {
		n += len(w.listeners)
	}
	return n
}

// Twenty callers with one Idempotency-Key at two replicas count as one pending caller. All callers
// get the same token.
func testCallersOfOneKeyShareATicket(t *testing.T, o Options) {
	o.Prefix = "one ticket"
	one, two, id := open(t, o), open(t, o), identity("one ticket")
	request := Request{ID: id, Idempotency: "k", Wait: 20 * time.Second, MaxWaiting: 1}
	here, there := gather(t, one, request, 10), gather(t, two, request, 10)
	testkit.Within(t, 20*time.Second, "a place at each replica", func() bool { return look(t, one, id).Figures.Requests == 2 })
	if got := look(t, one, id); got.Waiting != 1 {
		t.Errorf("%d tickets for callers of one key", got.Waiting)
	}
	other := request
	other.MinTTL = time.Second
	if _, err := one.Take(t.Context(), other); !errors.Is(err, ErrConflict) {
		t.Errorf("the key with another min_ttl meanwhile: %v", err)
	}
	stock(t, two, id, 3, 0, time.Minute)
	tokens, waited := map[string]int{}, 0
	for i := range 20 {
		results := here
		if i >= 10 {
			results = there
		}
		got := <-results
		if got.err != nil {
			t.Fatal(got.err)
		}
		tokens[got.token.Value]++
		switch got.token.Source {
		case FromWait:
			waited++
		case FromReplay:
		default:
			t.Errorf("source %s", got.token.Source)
		}
	}
	if len(tokens) != 1 || waited != 1 {
		t.Errorf("%d waited for it: %v", waited, tokens)
	}
	if k := one.keys(id); one.db.Slow.Exists(t.Context(), k.tickets, k.seen).Val() != 0 {
		t.Errorf("left of the queue: %q", one.db.Slow.ZRange(t.Context(), k.seen, 0, -1).Val())
	}
	got := look(t, one, id)
	if f := got.Figures; got.Waiting != 0 || got.Fresh != 2 || f.Requests != 1 || f.Waited != 1 || f.Replays != 1 {
		t.Errorf("afterwards: %+v", got)
	}
}

// A shared ticket lasts until its last caller leaves, at whichever replica this caller waits.
// Callers that join later share the ticket's place in the queue.
func testSharedTicketsLastUntilTheLastCallerLeaves(t *testing.T, o Options) {
	o.Prefix = "last caller"
	one, two, id := open(t, o), open(t, o), identity("last caller")
	long := Request{ID: id, Idempotency: "k", Wait: 20 * time.Second, MaxWaiting: 10}
	short := long
	short.Wait = 300 * time.Millisecond
	for _, replica := range []*replica{one, two} {
		patient := gather(t, one, long, 1)
		if got := <-gather(t, replica, short, 1); !isEmpty(got.err) {
			t.Fatalf("after its wait: %+v", got)
		}
		if replica == two { // a later call removes the other replica from the ticket's holders
			testkit.Within(t, 20*time.Second, "the miss", func() bool { return look(t, one, id).Figures.Misses == 1 })
		}
		if got := look(t, one, id); got.Waiting != 1 {
			t.Errorf("%d tickets while a caller waits", got.Waiting)
		}
		// No later caller overtakes the shared ticket.
		behind := parkOne(t, two, Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 10})
		stock(t, two, id, 1, 0, time.Minute)
		if got := <-patient; got.err != nil || got.token.Source != FromWait {
			t.Errorf("the patient caller: %+v", got)
		}
		stock(t, two, id, 1, 0, time.Minute)
		if got := <-behind; got.err != nil {
			t.Errorf("the one behind: %v", got.err)
		}
		long.Idempotency += "+"
		short.Idempotency = long.Idempotency
	}
	if got := <-gather(t, one, short, 3); !isEmpty(got.err) {
		t.Errorf("after its wait: %+v", got)
	}
	testkit.Within(t, 20*time.Second, "no ticket", func() bool { return look(t, one, id).Waiting == 0 })
	f := look(t, one, id).Figures
	if f.Requests != f.Hits+f.Waited+f.Misses {
		t.Errorf("requests are not what became of them: %+v", f)
	}
}

// A replica dies while one of its callers shares a ticket. The ticket stays with the other replica.
// If no other replica holds the ticket, the ticket is removed.
func testSharedTicketsOutliveADeadReplica(t *testing.T, o Options) {
	o.Prefix = "dead holder"
	s, id := open(t, o), identity("dead holder")
	o.Log = slog.New(slog.DiscardHandler)
	dead, err := openStore(o)
	if err != nil {
		t.Fatal(err)
	}
	request := Request{ID: id, Idempotency: "k", Wait: 20 * time.Second, MaxWaiting: 10}
	var all sync.WaitGroup
	all.Go(func() { _, _ = dead.Take(t.Context(), request) })
	testkit.Within(t, 20*time.Second, "a ticket", func() bool { return look(t, s, id).Waiting == 1 })
	patient := gather(t, s, request, 1)
	testkit.Within(t, 20*time.Second, "both places", func() bool { return look(t, s, id).Figures.Requests == 2 })
	_, _ = dead.db.Hot.Close(), dead.db.Slow.Close() // the dead replica can make no more calls
	short := request
	short.Idempotency, short.Wait = "other", 10*time.Millisecond
	_, _ = s.Take(t.Context(), short)
	testkit.Within(t, 20*time.Second, "the dead replica to be forgotten", func() bool {
		members, err := s.db.Slow.ZCard(t.Context(), s.keys(id).seen).Result()
		return err == nil && members == 2 // the ticket, and this replica as its holder
	})
	if got := look(t, s, id); got.Waiting != 1 {
		t.Errorf("%d tickets", got.Waiting)
	}
	s.EndWaits()
	<-patient
	testkit.Within(t, 20*time.Second, "no ticket", func() bool { return look(t, s, id).Waiting == 0 })
	_ = dead.Close()
	all.Wait()
}
