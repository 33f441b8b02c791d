package pool

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"
)

// A call of take.lua sends each argument at the position of its name in the script's header.
func TestTakeSendsArgumentsInTheOrderOfTheHeader(t *testing.T) {
	s, err := openStore(Options{Addresses: "redis://nowhere", Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	q, take := s.queue(identity("protocol")), s.script("take")
	waits := Request{
		Margin: 2 * time.Second, MinTTL: 30 * time.Second, Wait: time.Second, Idempotency: "k", EndOnFailure: true,
		MaxWaiting: 7, Rate: 5, RatePer: 11 * time.Second,
	}
	once, parked := q.newWaiter(Request{Margin: time.Second, MinTTL: 500 * time.Millisecond, Idempotency: "other"}, nil), q.newWaiter(waits, nil)
	parked.arrival = "1700000000000000"
	waits.Margin = 4 * time.Second // the longest margin does not belong to the last waiter
	keys, values := q.encode(&takeCall{
		immediate:  []*waiter{q.newWaiter(waits, nil)},
		waiters:    []*waiter{once, parked},
		departures: []departure{{ticket: "gone", holder: "gone|here", outcome: outcomeMissed}, {ticket: "refused", outcome: outcomeRefused}},
	}, 9)

	own := len(take.Names("KEYS"))
	if !slices.Equal(keys[:own], take.KeysOf(s.keys(q.id))) || !slices.Equal(keys[own:], []string{once.once, parked.once}) {
		t.Errorf("keys %q", keys)
	}
	for _, group := range []struct {
		label string
		want  map[string]any
	}{
		{"ARGV", map[string]any{
			"number": int64(9), "receipt_ms": receiptLife.Milliseconds(), "margin_ms": int64(4000), "rate": 5, "rate_per_ms": int64(11000),
			"most_waiting": 7, "immediate": 1, "departures": 2, "waiters": 2,
		}},
		{"DEPARTURE", map[string]any{"ticket": "gone", "outcome": 1 + slices.Index(take.Names("OUTCOME"), "missed"), "holder": "gone|here"}},
		{"DEPARTURE", map[string]any{"ticket": "refused", "outcome": 1 + slices.Index(take.Names("OUTCOME"), "refused"), "holder": ""}},
		{"WAITER", map[string]any{
			"ticket": "", "arrival": "", "need_ms": int64(1000), "once": own + 1, "min_ttl": int64(500), "holder": "", "end_on_failure": 0,
		}},
		{"WAITER", map[string]any{
			"ticket": parked.ticket, "arrival": "1700000000000000", "need_ms": int64(30000), "once": own + 2, "min_ttl": int64(30000),
			"holder": parked.ticket + "|" + s.replica, "end_on_failure": 1,
		}},
	} {
		got := map[string]any{}
		for i, name := range take.Names(group.label) {
			got[name] = values[i]
		}
		if !maps.Equal(got, group.want) {
			t.Errorf("%s: %v, want %v", group.label, got, group.want)
		}
		values = values[len(group.want):]
	}
	if len(values) > 0 {
		t.Errorf("further arguments: %v", values)
	}
	if n := len(take.Names("Reply")); n != replyHead {
		t.Errorf("the reply begins with %d values, want %d", n, replyHead)
	}
}
