package pool

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
