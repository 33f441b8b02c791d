package pool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// use notes that a guest is asked for, without limits.
func use(t testing.TB, s *replica, ids ...captcha.ID) {
	t.Helper()
	for _, id := range ids {
		must(t, s.Guests.Use(t.Context(), id, GuestUse{}))
	}
}

// makeDue is time that passes until guests are to be looked at.
func makeDue(t testing.TB, s *replica, ids ...captcha.ID) {
	t.Helper()
	for _, id := range ids {
		must(t, s.db.Slow.ZAddXX(t.Context(), s.guests().guests, redis.Z{Score: 1, Member: string(id)}).Err())
	}
}

func noTargets(captcha.ID) bool { return false }

func retire(t testing.TB, s *replica, want int) {
	t.Helper()
	if n, err := s.Guests.Retire(t.Context(), noTargets); err != nil || n != want {
		t.Fatalf("%d retired, %v; want %d", n, err, want)
	}
}

// survey looks at all guests; the figures must balance.
func survey(t testing.TB, s *replica) GuestStock {
	t.Helper()
	got, err := s.Guests.Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, Stock{Figures: got.Figures, Fresh: got.Fresh, Bought: got.Bought})
	return got
}

// served is a guest with one token that was taken; nothing is left but its figures.
func served(t testing.TB, s *replica, id captcha.ID) {
	t.Helper()
	use(t, s, id)
	stock(t, s, id, 1, 0, time.Minute)
	take(t, s, Request{ID: id}, 1)
}

// listed is how many guests are known.
func listed(t testing.TB, s *replica) int {
	t.Helper()
	n, err := s.db.Slow.ZCard(t.Context(), s.guests().guests).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// dueIn is when a guest is to be looked at.
func dueIn(t testing.TB, s *replica, id captcha.ID) time.Duration {
	t.Helper()
	at, err := s.db.Slow.ZScore(t.Context(), s.guests().guests, string(id)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.UnixMilli(int64(at)))
}

// keysWith are the keys that have a text in their names, at all masters.
func keysWith(t testing.TB, s *replica, text string) (found []string) {
	t.Helper()
	var mu sync.Mutex
	err := s.db.EachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, s.prefix+":*").Result()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			if strings.Contains(key, text) {
				found = append(found, key)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// All replicas know a guest, its rate and how many there are.
func testGuestsAreKnownToAll(t *testing.T, o Options) {
	o.Prefix = "known guests"
	one, two, ctx := open(t, o), open(t, o), t.Context()
	limited := GuestUse{Rate: 3, RatePer: time.Minute}
	for i, s := range []*replica{one, two, one} {
		must(t, s.Guests.Use(ctx, identity("g"+strconv.Itoa(i%2)), limited))
	}
	var rate *RateError
	if err := two.Guests.Use(ctx, identity("g0"), limited); !errors.As(err, &rate) || rate.RetryAfter <= 50*time.Second || rate.RetryAfter > time.Minute {
		t.Errorf("beyond the rate: %v", err)
	}
	if err := two.Guests.Use(ctx, identity("g0"), GuestUse{Wait: 5 * time.Minute}); err != nil {
		t.Error(err)
	}
	use(t, one, identity("g0")) // is sooner over
	if in := dueIn(t, one, identity("g0")); in < 350*time.Second || in > 365*time.Second {
		t.Errorf("is looked at in %v", in)
	}
	if in := dueIn(t, one, identity("g1")); in < 50*time.Second || in > 65*time.Second {
		t.Errorf("is looked at in %v", in)
	}
	two.Guests.most = 2
	var full *EmptyError
	if err := two.Guests.Use(ctx, identity("one too many"), GuestUse{}); !errors.As(err, &full) || !full.Full {
		t.Errorf("beyond the most: %v", err)
	}
	use(t, two, identity("g1"))
	if got := listed(t, one); got != 2 {
		t.Errorf("%d guests", got)
	}
}

// A guest stays while it has a token, an order or a caller; then its figures are in the
// row, and nothing else is left of it.
func testGuestsAreRetired(t *testing.T, o Options) {
	s, ctx := open(t, o), t.Context()
	gone, token, order, caller := identity("gone"), identity("a token"), identity("an order"), identity("a caller")
	if got := survey(t, s); got != (GuestStock{}) {
		t.Errorf("before all: %+v", got)
	}
	served(t, s, gone)
	for _, key := range []string{s.keys(gone).paused, s.keys(gone).learned, s.keys(gone).status} {
		must(t, s.db.Slow.Set(ctx, key, "1", kept).Err())
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
		// These end with the token, and with what can be said of it.
		if !strings.Contains(key, ":values:") && !strings.Contains(key, ":sold:") && !strings.Contains(key, ":last:") {
			t.Errorf("%s is left", key)
		}
	}
	// What it is asked for again is added to what it was.
	served(t, s, gone)
	makeDue(t, s, gone)
	retire(t, s, 1)
	if f := survey(t, s).Figures; f.Hits != want.Figures.Hits+1 || f.Solved != want.Figures.Solved+1 {
		t.Errorf("after its second time: %+v", f)
	}
	s.SendAway()
}

// holding is a guest that was asked for and served once, with a token, an order that was
// bought and one that was not yet.
func holding(t testing.TB, s *replica, id captcha.ID) {
	t.Helper()
	served(t, s, id)
	stock(t, s, id, 1, 0, time.Minute)
	for _, order := range []string{"bought", "intent"} {
		placeOrder(t, s, Order{Ref: Ref{id, order}, Depth: 10, TTL: time.Minute})
	}
	expect(t, true)(s.Submitted(t.Context(), Ref{id, "bought"}, "1"))
}

// A script that one node of several forgot is not run a second time at the others: their
// guests would be taken for such as were not seen to.
func testAForgottenScriptRunsOnce(t *testing.T, o Options) {
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

// A guest that becomes a target's leaves its figures to the row, which never goes back.
// What it holds is the target's, with all else that is known of it.
func testAGuestThatBecameATarget(t *testing.T, o Options) {
	s, id, other, never := open(t, o), identity("promoted"), identity("stays"), identity("no guest")
	ctx := t.Context()
	holding(t, s, id)
	served(t, s, other)
	stock(t, s, never, 1, 0, time.Minute)
	must(t, s.Pause(ctx, id, Pause{}))
	want := survey(t, s)
	must(t, s.Guests.Leave(ctx, []captcha.ID{never, id}))
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

	// A replica that has not read the file yet buys for it as a guest.
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

	// The target goes, and the identity is asked for again.
	if err := s.db.Slow.Del(ctx, s.keys(id).retired).Err(); err != nil { // leftFor passes
		t.Fatal(err)
	}
	use(t, s, id)
	got := survey(t, s)
	if f := got.Figures; got.Fresh != 2 || f.Bought != want.Figures.Bought+3 || f.Hits != want.Figures.Hits+1 || f.Solved != want.Figures.Solved+2 {
		t.Errorf("the target has gone: %+v, it was %+v", got, want)
	}
}

// A replica that hands a guest over to its target is killed after each step, or stopped
// and goes on later: the figures are in the row once.
func testAHandOverIsCutAnywhere(t *testing.T, o Options) {
	o.Prefix = "cut hand-over"
	one, two, ctx := open(t, o), open(t, o), t.Context()
	var want Figures
	for steps := range 5 {
		for _, retired := range []bool{false, true} { // the other one found it due, and has no target of it
			id := identity(fmt.Sprint("handed over ", steps, retired))
			holding(t, one, id)
			due, err := one.Guests.due(ctx, id)
			if err != nil || len(due) != 1 {
				t.Fatalf("%d guests, %v", len(due), err)
			}
			due[0].leave = true
			run := func(steps []func(context.Context, []*leaver) error) {
				for _, step := range steps {
					must(t, step(ctx, due))
				}
			}
			all := []func(context.Context, []*leaver) error{one.Guests.look, one.Guests.fold, one.Guests.forget, one.Guests.release}
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
			must(t, two.Guests.Leave(ctx, []captcha.ID{id}))
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

// Figures of an earlier time are in the row before a guest is handed over, all at once.
func testAHandOverAfterAnEnd(t *testing.T, o Options) {
	s, id, ctx := open(t, o), identity("twice"), t.Context()
	served(t, s, id)
	due, err := s.Guests.due(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Guests.look(ctx, due); err != nil { // and no further
		t.Fatal(err)
	}
	served(t, s, id)
	must(t, s.Guests.Leave(ctx, []captcha.ID{id}))
	if got := survey(t, s); got.Guests != 0 || got.Figures.Hits != 2 {
		t.Errorf("the guests: %+v", got)
	}
	if got := look(t, s, id).Figures; got != (Figures{}) {
		t.Errorf("the target: %+v", got)
	}
}

// A replica is killed after each step of a guest's end: the next one goes on, and the
// figures are in the row once. One that was stopped instead adds nothing when it goes on.
func testAGuestsEndIsCutAnywhere(t *testing.T, o Options) {
	o.Prefix = "cut"
	one, two, ctx := open(t, o), open(t, o), t.Context()
	cutAfter := func(s *replica, steps int) (rest func()) {
		due, err := s.Guests.due(ctx)
		if err != nil || len(due) != 1 {
			t.Fatalf("%d are due, %v", len(due), err)
		}
		all := []func(context.Context, []*leaver) error{s.Guests.look, s.Guests.fold, s.Guests.forget, s.Guests.release}
		run := func(steps []func(context.Context, []*leaver) error) {
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

// Who is too slow adds nothing, since nobody can say whether another replica did.
func testALateFoldIsRefused(t *testing.T, o Options) {
	s, id := open(t, o), identity("late fold")
	served(t, s, id)
	makeDue(t, s, id)
	due, err := s.Guests.due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Guests.look(t.Context(), due))
	due[0].leased = due[0].leased.After(-guestLease - time.Minute)
	if err := s.Guests.fold(t.Context(), due); err != nil || due[0].folded {
		t.Errorf("folded: %v, %v", due[0].folded, err)
	}
	if got := survey(t, s).Figures; got.Hits != 1 {
		t.Errorf("%+v", got)
	}
}

// Who is too slow to forget what it added to the row leaves what the guest did later.
func testALateForgetTakesNothingElse(t *testing.T, o Options) {
	s, id, ctx := open(t, o), identity("late forget"), t.Context()
	look := func() []*leaver {
		served(t, s, id)
		makeDue(t, s, id)
		due, err := s.Guests.due(ctx)
		if err == nil {
			err = s.Guests.look(ctx, due)
		}
		if err != nil || len(due) != 1 || due[0].nonce == "" {
			t.Fatal(due, err)
		}
		return due
	}
	slow := look()
	if err := s.Guests.fold(ctx, slow); err != nil || !slow[0].folded {
		t.Fatal(slow[0].folded, err)
	}
	makeDue(t, s, id)
	retire(t, s, 0) // forgets for the slow one
	makeDue(t, s, id)
	retire(t, s, 1)
	look() // and dies
	must(t, s.Guests.forget(ctx, slow))
	makeDue(t, s, id)
	retire(t, s, 0)
	if got := survey(t, s).Figures; got.Hits != 2 {
		t.Errorf("%+v", got)
	}
}

// Where guests come to their ends all the time, a survey makes them wait; they are not
// lost over that.
func testASurveyHoldsFoldsUp(t *testing.T, o Options) {
	s, id := open(t, o), identity("held")
	served(t, s, id)
	ctx := t.Context()
	if _, err := s.call(ctx, "guest_row", s.guests(), args{"survey": "slow", "hold_ms": surveyHold}); err != nil {
		t.Fatal(err)
	}
	makeDue(t, s, id)
	retire(t, s, 0)
	if got := survey(t, s); got.Figures.Hits != 1 || got.Guests != 1 {
		t.Errorf("held: %+v", got)
	}
	if _, settled, err := s.Guests.survey(ctx, surveyHold); err != nil || !settled {
		t.Error(settled, err)
	}
	makeDue(t, s, id)
	if _, err := s.Guests.Retire(ctx, noTargets); err != nil { // figures of an earlier time
		t.Fatal(err)
	}
	makeDue(t, s, id)
	retire(t, s, 1)
	if got := survey(t, s); got.Figures.Hits != 1 || got.Guests != 0 {
		t.Errorf("at the end: %+v", got)
	}
}

// Two replicas retire guests that two others use again and again, targets take some of
// them over meanwhile, and all are counted all the time: no counter goes back, all balances
// in each answer, and everything is counted once.
func TestGuestsComeAndGo(t *testing.T) {
	t.Parallel()
	for _, server := range redistest.Kinds() {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			testGuestsComeAndGo(t, at(server.Start(t)))
		})
	}
}

// notLess complains of figures that are below what they were.
func notLess(t *testing.T, now, before Figures) {
	t.Helper()
	is, was := reflect.ValueOf(now), reflect.ValueOf(before)
	for i := range is.NumField() {
		if is.Field(i).Int() < was.Field(i).Int() {
			t.Errorf("%s went back from %d to %d", is.Type().Field(i).Name, was.Field(i).Int(), is.Field(i).Int())
		}
	}
}

func testGuestsComeAndGo(t *testing.T, o Options) {
	o.Prefix = "come and go"
	const callers, rounds = 6, 15
	var all [5]*replica
	for i := range all {
		all[i] = open(t, o)
	}
	var work, watch sync.WaitGroup
	done := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(done)
		watch.Wait()
	})
	defer end()
	var fails, dead atomic.Int64
	until := func(do func()) { // with pauses, so that a slow server has time for the rest
		for {
			select {
			case <-done:
				return
			default:
				began := time.Now()
				do()
				time.Sleep(max(time.Millisecond, 2*time.Since(began)))
			}
		}
	}
	for _, s := range all[:2] {
		watch.Go(func() {
			until(func() {
				if _, err := s.Guests.Retire(t.Context(), noTargets); err != nil {
					t.Error(err)
				}
			})
		})
	}
	watch.Go(func() {
		var last Figures
		until(func() {
			got, err := all[4].Guests.Survey(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			balanced(t, Stock{Figures: got.Figures, Fresh: got.Fresh, Bought: got.Bought})
			notLess(t, got.Figures, last)
			last = got.Figures
		})
	})
	var promoted []captcha.ID // in time
	for i := range callers / 2 {
		for round := range 3 {
			promoted = append(promoted, identity(fmt.Sprint("comes and goes ", i, " ", round)))
		}
	}
	watch.Go(func() {
		last := map[captcha.ID]Figures{}
		until(func() {
			for _, id := range promoted {
				if !all[3].db.Slow.HExists(t.Context(), all[3].keys(id).retired, leftField).Val() {
					continue // a guest
				}
				if err := all[3].Guests.Leave(t.Context(), []captcha.ID{id}); err != nil {
					t.Error(err)
				}
				got := look(t, all[3], id)
				balanced(t, got)
				notLess(t, got.Figures, last[id])
				last[id] = got.Figures
			}
		})
	})
	for i := range callers {
		work.Go(func() {
			s := all[2+i%2]
			for round := range rounds {
				id := identity(fmt.Sprint("comes and goes ", i, " ", round%3))
				use(t, s, id)
				order := fmt.Sprintf("o%dx%d", i, round)
				place(t, s, id, order)
				if slices.Contains(promoted, id) && round >= rounds/2 {
					if err := s.Guests.Leave(t.Context(), []captcha.ID{id}); err != nil {
						t.Error(err)
					}
				}
				switch round % 4 {
				case 0:
					if how, err := s.Fail(t.Context(), Failure{Ref: Ref{id, order}, Bought: true}); err != nil || how != Ended {
						t.Error(how, err)
					}
					fails.Add(1)
				case 1:
					land(t, s, id, order, 0, time.Millisecond)
					dead.Add(1)
				default:
					land(t, s, id, order, 0, time.Minute)
					take(t, s, Request{ID: id}, 1)
				}
				makeDue(t, s, id)
			}
		})
	}
	work.Wait()
	for range 20 { // what a replica holds now is left to it for a while
		for _, id := range all[0].db.Slow.ZRange(t.Context(), all[0].guests().guests, 0, -1).Val() {
			makeDue(t, all[0], captcha.ID(id))
		}
		if listed(t, all[0]) == 0 {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	end()
	f := survey(t, all[0]).Figures
	handedOver := f.Discarded
	for _, id := range promoted {
		target := look(t, all[0], id).Figures
		if fields := all[0].db.Slow.HKeys(t.Context(), all[0].keys(id).retired).Val(); len(fields) != 1 || fields[0] != leftField {
			t.Errorf("%s was handed over: %q", id, fields)
		}
		f.Bought, f.Failed, f.Expired = f.Bought+target.Bought, f.Failed+target.Failed, f.Expired+target.Expired
		f.Hits, f.Requests = f.Hits+target.Hits, f.Requests+target.Requests
	}
	hits := callers*rounds - fails.Load() - dead.Load()
	if f.Bought-handedOver != callers*rounds || f.Failed != fails.Load() || f.Expired != dead.Load() || f.Hits != hits || f.Requests != hits {
		t.Errorf("%d fails, %d dead, %d hits, %d handed over; counted %+v", fails.Load(), dead.Load(), hits, handedOver, f)
	}
	if left := keysWith(t, all[0], ":retired:"); len(left) != len(promoted) {
		t.Errorf("left: %q", left)
	}
}

// Many guests come and go: a while after their lives Redis has as many keys as
// before.
func TestGuestsLeaveNoKeys(t *testing.T) {
	testkit.WithoutRace(t)
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		s := open(t, Options{Addresses: "redis://bubble", Dial: bubble.Dial})
		const guests = guestBatch + 12 // more than are seen to in one exchange
		var before int
		for round := range 3 {
			for i := range guests {
				id := identity(fmt.Sprint(round, " ", i))
				use(t, s, id)
				stock(t, s, id, 1, 0, 2*time.Minute)
				if i%2 == 0 {
					take(t, s, Request{ID: id, Idempotency: "k"}, 1)
				}
			}
			retire(t, s, 0)
			for n := 0; n < guests; {
				time.Sleep(time.Minute)
				more, err := s.Guests.Retire(t.Context(), noTargets)
				if err != nil {
					t.Fatal(err)
				}
				n += more
			}
			time.Sleep(20 * time.Minute) // a report is taken for 15
			s.forget(time.Now(), time.Minute)
			now := len(bubble.Keys())
			if round == 0 {
				before = now
			} else if now != before {
				t.Errorf("%d keys after round %d, %d after the first: %q", now, round, before, bubble.Keys())
			}
			if f := survey(t, s).Figures; f.Solved != int64(guests*(round+1)) || f.Expired != int64(guests/2*(round+1)) {
				t.Errorf("%+v", f)
			}
			if n := s.db.Slow.ZCard(t.Context(), s.guests().folded).Val(); n > guests {
				t.Errorf("%d names are known", n)
			}
		}
	})
}
