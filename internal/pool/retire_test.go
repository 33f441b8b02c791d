package pool

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// A guest stays on the list while it has a token, an order or a pending caller. Afterwards its
// figures are in the row and all its keys are deleted.
func testGuestsAreRetired(t *testing.T, o Options) {
	s, ctx := open(t, o), t.Context()
	gone, token, order, caller := identity("gone"), identity("a token"), identity("an order"), identity("a caller")
	if got := survey(t, s); got != (GuestStock{}) {
		t.Errorf("before all: %+v", got)
	}
	served(t, s, gone)
	for _, key := range []string{s.keys(gone).paused, s.keys(gone).learned, s.keys(gone).status} {
		must(t, s.db.Slow.Set(ctx, key, "1", keyLife).Err())
	}
	use(t, s, token, order, caller)
	stock(t, s, token, 1, 0, 20*time.Second)
	placeOrder(t, s, Order{Ref: Ref{order, "a"}, Depth: 1, TTL: 5 * time.Second})
	expect(t, true)(s.Submitted(ctx, Ref{order, "a"}, "1"))
	parkOne(t, s, Request{ID: caller, Wait: 20 * time.Second, MaxWaiting: 1})
	retire(t, s, 0)
	makeDue(t, s, gone, token, order, caller)
	want := survey(t, s)
	if f := want.Figures; want.Guests != 4 || want.Fresh != 1 || want.Orders != 1 || want.Bought != 1 || want.Waiting != 1 || f.Solved != 2 || f.Hits != 1 || f.Bought != 3 || f.Requests != 2 {
		t.Errorf("%+v", want)
	}
	retire(t, s, 1)
	want.Guests = 3
	if got := survey(t, s); got != want {
		t.Errorf("one has gone: %+v, want %+v", got, want)
	}
	for _, guest := range []struct {
		id       captcha.ID
		from, to time.Duration
	}{{token, 10 * time.Second, 21 * time.Second}, {order, 0, 6 * time.Second}, {caller, 50 * time.Second, 61 * time.Second}} {
		if in := dueIn(t, s, guest.id); in < guest.from || in > guest.to {
			t.Errorf("%s is looked at in %v", guest.id, in)
		}
	}
	for _, key := range keysWith(t, s, string(gone)) {
		// These keys expire after the token's death or the last possible report.
		if !strings.Contains(key, ":values:") && !strings.Contains(key, ":sold:") && !strings.Contains(key, ":last:") {
			t.Errorf("%s is left", key)
		}
	}
	// Figures of later requests are added to the earlier figures.
	served(t, s, gone)
	makeDue(t, s, gone)
	retire(t, s, 1)
	if f := survey(t, s).Figures; f.Hits != want.Figures.Hits+1 || f.Solved != want.Figures.Solved+1 {
		t.Errorf("after its second time: %+v", f)
	}
	s.EndWaits()
}

// holding creates a guest that was served once and still has a token, a bought order
// and an order that is not yet bought.
func holding(t testing.TB, s *replica, id captcha.ID) {
	t.Helper()
	served(t, s, id)
	stock(t, s, id, 1, 0, time.Minute)
	for _, order := range []string{"bought", "intent"} {
		placeOrder(t, s, Order{Ref: Ref{id, order}, Depth: 10, TTL: time.Minute})
	}
	expect(t, true)(s.Submitted(t.Context(), Ref{id, "bought"}, "1"))
}

// If one node lost a script, the other nodes must not run the script a second time. A second run
// would find that the figures are already set apart, and Retire would not count these guests as
// retired.
func testMissingScriptRunsOnceAtEachNode(t *testing.T, o Options) {
	s, ctx := open(t, o), t.Context()
	guests := make([]captcha.ID, 12)
	for i := range guests {
		guests[i] = identity(strconv.Itoa(i))
		served(t, s, guests[i])
	}
	var nodes atomic.Int64
	err := s.db.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		if nodes.Add(1) == 1 {
			return node.ScriptFlush(ctx).Err()
		}
		return s.script("guest_retire").Load(ctx, node).Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	makeDue(t, s, guests...)
	retire(t, s, len(guests))
}

// If a target takes over a guest, the guest's figures are added to the row. The figures of the row
// never decrease. The target gets the tokens, orders and other state.
func testLeaveHandsAGuestOver(t *testing.T, o Options) {
	s, id, other, never := open(t, o), identity("promoted"), identity("stays"), identity("no guest")
	ctx := t.Context()
	holding(t, s, id)
	served(t, s, other)
	stock(t, s, never, 1, 0, time.Minute)
	must(t, s.Pause(ctx, id, Pause{}))
	want := survey(t, s)
	must(t, s.Guests.HandOver(ctx, []captcha.ID{never, id}))
	if got := look(t, s, never).Figures; got.Bought != 1 || got.Solved != 1 {
		t.Errorf("a target that was no guest: %+v", got)
	}
	want.Guests, want.Fresh, want.Orders, want.Bought = 1, 0, 0, 0
	want.Figures.Discarded = 2 // the token and the bought order
	if got := survey(t, s); got != want || want.Figures.Bought != 4 {
		t.Errorf("the guests: %+v, want %+v", got, want)
	}
	check := func(when string, figures Figures) {
		t.Helper()
		got := look(t, s, id)
		if balanced(t, got); !got.Paused || got.Figures != figures {
			t.Errorf("%s the target: %+v, want %+v", when, got, figures)
		}
		if got := survey(t, s); got != want {
			t.Errorf("%s the guests: %+v, want %+v", when, got, want)
		}
	}
	check("handed over", Figures{Bought: 2})
	take(t, s, Request{ID: id}, 1)
	land(t, s, id, "bought", 0, time.Minute)
	after := Figures{Bought: 2, Requests: 1, Hits: 1, Solved: 1}
	check("in use", after)

	// A replica with an older pools.yaml uses the identity as a guest.
	use(t, s, id)
	land(t, s, id, "intent", 0, time.Minute)
	after.Bought, after.Solved = 3, 2
	want.Guests = 2
	check("used by another replica", after)
	makeDue(t, s, id)
	retire(t, s, 0)
	if in := dueIn(t, s, id); in < leftFor-time.Minute || in > leftFor {
		t.Errorf("is looked at again in %v", in)
	}
	check("looked at by another replica", after)
	makeDue(t, s, id)
	if n, err := s.Guests.Retire(ctx, func(id captcha.ID) bool { return id != other }); n != 0 || err != nil {
		t.Errorf("%d retired, %v", n, err)
	}
	want.Guests = 1
	check("looked at by this one", after)

	// The target is removed, and a caller requests the identity again.
	if err := s.db.Slow.Del(ctx, s.keys(id).apart).Err(); err != nil { // as if leftFor had passed
		t.Fatal(err)
	}
	use(t, s, id)
	got := survey(t, s)
	if f := got.Figures; got.Fresh != 2 || f.Bought != want.Figures.Bought+3 || f.Hits != want.Figures.Hits+1 || f.Solved != want.Figures.Solved+2 {
		t.Errorf("the target has gone: %+v, it was %+v", got, want)
	}
}

// A replica hands a guest over to a target. It is killed after each step, or stopped and resumed
// later. The row contains the figures once.
func testHandOverSurvivesKills(t *testing.T, o Options) {
	o.Prefix = "cut hand-over"
	one, two, ctx := open(t, o), open(t, o), t.Context()
	var want Figures
	for steps := range 5 {
		for _, retired := range []bool{false, true} { // if true, a replica without the target retires the guest in between
			id := identity(fmt.Sprint("handed over ", steps, retired))
			holding(t, one, id)
			due, err := one.Guests.leaseDue(ctx, id)
			if err != nil || len(due) != 1 {
				t.Fatalf("%d guests, %v", len(due), err)
			}
			due[0].handOver = true
			run := func(steps []func(context.Context, []*dueGuest) error) {
				for _, step := range steps {
					must(t, step(ctx, due))
				}
			}
			all := []func(context.Context, []*dueGuest) error{one.Guests.setApart, one.Guests.addToRow, one.Guests.deleteAdded, one.Guests.release}
			run(all[:steps])
			want.Bought, want.Hits, want.Requests, want.Solved = want.Bought+3, want.Hits+1, want.Requests+1, want.Solved+2
			check := func(when string, handed int64) {
				t.Helper()
				figures := want
				figures.Discarded += handed
				if got := survey(t, two); got.Figures != figures {
					t.Errorf("after %d steps, retired: %v, %s: %+v, want %+v", steps, retired, when, got.Figures, figures)
				}
			}
			check("at once", map[bool]int64{true: 2}[steps > 0])
			if retired {
				makeDue(t, two, id)
				if _, err := two.Guests.Retire(ctx, noTargets); err != nil {
					t.Fatal(err)
				}
			}
			must(t, two.Guests.HandOver(ctx, []captcha.ID{id}))
			check("at the end", 2)
			run(all[steps:])
			check("when it goes on", 2)
			want.Discarded += 2
			if got := look(t, two, id); got.Figures != (Figures{Bought: 2}) || listed(t, two) != 0 {
				t.Errorf("after %d steps, retired: %v: %+v, %d guests", steps, retired, got, listed(t, two))
			}
		}
	}
}

// HandOver first adds older figures to the row, in the same call.
func testHandOverAddsOlderFiguresFirst(t *testing.T, o Options) {
	s, id, ctx := open(t, o), identity("twice"), t.Context()
	served(t, s, id)
	due, err := s.Guests.leaseDue(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Guests.setApart(ctx, due); err != nil { // the replica stops after this step
		t.Fatal(err)
	}
	served(t, s, id)
	must(t, s.Guests.HandOver(ctx, []captcha.ID{id}))
	if got := survey(t, s); got.Guests != 0 || got.Figures.Hits != 2 {
		t.Errorf("the guests: %+v", got)
	}
	if got := look(t, s, id).Figures; got != (Figures{}) {
		t.Errorf("the target: %+v", got)
	}
}

// A replica is killed after each step of retiring a guest. The next replica continues, and the row
// contains the figures once. A stopped replica that continues later adds nothing.
func testRetireSurvivesKills(t *testing.T, o Options) {
	o.Prefix = "cut"
	one, two, ctx := open(t, o), open(t, o), t.Context()
	cutAfter := func(s *replica, steps int) (rest func()) {
		due, err := s.Guests.leaseDue(ctx)
		if err != nil || len(due) != 1 {
			t.Fatalf("%d are due, %v", len(due), err)
		}
		all := []func(context.Context, []*dueGuest) error{s.Guests.setApart, s.Guests.addToRow, s.Guests.deleteAdded, s.Guests.release}
		run := func(steps []func(context.Context, []*dueGuest) error) {
			for _, step := range steps {
				must(t, step(ctx, due))
			}
		}
		run(all[:steps])
		return func() { run(all[steps:]) }
	}
	var hits int64
	check := func(when string) {
		t.Helper()
		if f := survey(t, two).Figures; f.Hits != hits || f.Solved != hits || f.Bought != hits || f.Requests != hits {
			t.Errorf("%s: %+v, want %d of each", when, f, hits)
		}
	}
	finish := func() {
		t.Helper()
		for i := 0; listed(t, one) > 0; i++ {
			if i > 3 {
				t.Fatal("the guest stays")
			}
			for _, id := range one.db.Slow.ZRange(ctx, one.guests().guests, 0, -1).Val() {
				makeDue(t, one, captcha.ID(id))
			}
			if _, err := two.Guests.Retire(ctx, noTargets); err != nil {
				t.Fatal(err)
			}
		}
	}
	for steps := range 5 {
		for _, used := range []bool{false, true} {
			for _, stopped := range []bool{false, true} {
				name := fmt.Sprintf("after %d steps, used again: %v, goes on: %v", steps, used, stopped)
				id := identity(name)
				served(t, one, id)
				hits++
				check("before")
				makeDue(t, one, id)
				rest := cutAfter(one, steps)
				check(name)
				if used {
					served(t, one, id)
					hits++
					check(name + ", then")
				}
				finish()
				check(name + ", at the end")
				if stopped {
					rest()
					check(name + ", when it goes on")
				}
			}
		}
	}
	if left := keysWith(t, one, ":retired:"); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// After the lease has ended, an addition to the row is refused, because another replica may have
// added the figures.
func testLateAdditionsToTheRowAreRefused(t *testing.T, o Options) {
	s, id := open(t, o), identity("late addition")
	served(t, s, id)
	makeDue(t, s, id)
	due, err := s.Guests.leaseDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Guests.setApart(t.Context(), due))
	due[0].leased = due[0].leased.After(-guestLease - time.Minute)
	if err := s.Guests.addToRow(t.Context(), due); err != nil || due[0].added {
		t.Errorf("added: %v, %v", due[0].added, err)
	}
	if got := survey(t, s).Figures; got.Hits != 1 {
		t.Errorf("%+v", got)
	}
}

// If a replica is late to delete the figures that it added, the newer figures of the guest stay.
func testLateForgetKeepsNewerFigures(t *testing.T, o Options) {
	s, id, ctx := open(t, o), identity("late forget"), t.Context()
	look := func() []*dueGuest {
		served(t, s, id)
		makeDue(t, s, id)
		due, err := s.Guests.leaseDue(ctx)
		if err == nil {
			err = s.Guests.setApart(ctx, due)
		}
		if err != nil || len(due) != 1 || due[0].nonce == "" {
			t.Fatal(due, err)
		}
		return due
	}
	slow := look()
	if err := s.Guests.addToRow(ctx, slow); err != nil || !slow[0].added {
		t.Fatal(slow[0].added, err)
	}
	makeDue(t, s, id)
	retire(t, s, 0) // deletes the figures before the slow replica does
	makeDue(t, s, id)
	retire(t, s, 1)
	look() // the replica dies after setting the figures apart
	must(t, s.Guests.deleteAdded(ctx, slow))
	makeDue(t, s, id)
	retire(t, s, 0)
	if got := survey(t, s).Figures; got.Hits != 2 {
		t.Errorf("%+v", got)
	}
}
