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

// use records a request for each guest, without limits.
func use(t testing.TB, s *replica, ids ...captcha.ID) {
	t.Helper()
	for _, id := range ids {
		must(t, s.Guests.Use(t.Context(), id, GuestUse{}))
	}
}

// makeDue makes guests due for a check, as if time had passed.
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

// survey calls Survey and checks the equation of Figures.
func survey(t testing.TB, s *replica) GuestStock {
	t.Helper()
	got, err := s.Guests.Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, Stock{Figures: got.Figures, Fresh: got.Fresh, Bought: got.Bought})
	return got
}

// served creates a guest whose only token was taken. Only its figures are left.
func served(t testing.TB, s *replica, id captcha.ID) {
	t.Helper()
	use(t, s, id)
	stock(t, s, id, 1, 0, time.Minute)
	take(t, s, Request{ID: id}, 1)
}

// listed returns the number of guests on the list.
func listed(t testing.TB, s *replica) int {
	t.Helper()
	n, err := s.db.Slow.ZCard(t.Context(), s.guests().guests).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// dueIn returns the time until the next check of a guest.
func dueIn(t testing.TB, s *replica, id captcha.ID) time.Duration {
	t.Helper()
	at, err := s.db.Slow.ZScore(t.Context(), s.guests().guests, string(id)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.UnixMilli(int64(at)))
}

// keysWith returns, from all masters, the keys whose names contain a text.
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

// All replicas share the list of guests, their rate and the maximum number of guests.
func testReplicasShareGuests(t *testing.T, o Options) {
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
	use(t, one, identity("g0")) // this use ends sooner and does not change the time of the check
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

// Two replicas retire guests that two other replicas use repeatedly, targets take over some guests,
// and surveys run all the time. No counter decreases, each survey balances, and every event is
// counted once.
func TestGuestsComeAndGo(t *testing.T) {
	t.Parallel()
	for _, server := range redistest.Kinds() {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			testGuestsComeAndGo(t, at(server.Start(t)))
		})
	}
}

// notLess fails the test if a figure has decreased.
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
	until := func(do func()) { // with pauses, so that a slow server has time for other work
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
	var promoted []captcha.ID // identities that targets take over during the test
	for i := range callers / 2 {
		for round := range 3 {
			promoted = append(promoted, identity(fmt.Sprint("comes and goes ", i, " ", round)))
		}
	}
	watch.Go(func() {
		last := map[captcha.ID]Figures{}
		until(func() {
			for _, id := range promoted {
				if !all[3].db.Slow.HExists(t.Context(), all[3].keys(id).apart, leftField).Val() {
					continue // the identity is still a guest
				}
				if err := all[3].Guests.HandOver(t.Context(), []captcha.ID{id}); err != nil {
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
					if err := s.Guests.HandOver(t.Context(), []captcha.ID{id}); err != nil {
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
	for range 20 { // until all leases of the replicas have expired
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
		if fields := all[0].db.Slow.HKeys(t.Context(), all[0].keys(id).apart).Val(); len(fields) != 1 || fields[0] != leftField {
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

// Many guests come and go. When all data of a round has expired, Redis has as many keys as after
// the first round.
func TestGuestsLeaveNoKeys(t *testing.T) {
	testkit.WithoutRace(t)
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		s := open(t, Options{Addresses: "redis://bubble", Dial: bubble.Dial})
		const guests = guestBatch + 12 // more than one exchange handles
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
			time.Sleep(20 * time.Minute) // reports are accepted for 15 min
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
			if n := s.db.Slow.ZCard(t.Context(), s.guests().added).Val(); n > guests {
				t.Errorf("%d names are known", n)
			}
		}
	})
}

// If guests retire during every attempt, a survey delays additions to the row, and no figure is lost.
func testSurveyDelaysAdditionsToTheRow(t *testing.T, o Options) {
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
	if _, err := s.Guests.Retire(ctx, noTargets); err != nil { // adds the set-apart figures to the row
		t.Fatal(err)
	}
	makeDue(t, s, id)
	retire(t, s, 1)
	if got := survey(t, s); got.Figures.Hits != 1 || got.Guests != 0 {
		t.Errorf("at the end: %+v", got)
	}
}
