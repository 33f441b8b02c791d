package purchase

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/provider"
	"poold/internal/redisdb/redistest"
)

// replica is a buyer on a store of its own, as one process has them.
type replica struct {
	*ledger
	buyer  *Buyer
	store  *pooltest.Store
	logged bytes.Buffer
}

func newReplica(t *testing.T, o pool.Options, providers ...Entry) *replica {
	t.Helper()
	o.Addresses, o.Prefix, o.Log = cmp.Or(o.Addresses, "redis://bubble"), "test", quiet()
	store, err := pooltest.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := &replica{ledger: &ledger{}, store: store}
	r.buyer = NewBuyer(store, t.TempDir(), witness{r.ledger}, slog.New(slog.NewTextHandler(&r.logged, nil)))
	r.buyer.SetProviders(providers)
	return r
}

// at is an entry of a provider under a name, at an account, which notes its polls.
func (r *replica) at(name, account string) Entry {
	return Entry{Provider: newFakeProvider(r.ledger, name), Account: account, Concurrency: 9}
}

// leave buys n tasks and dies before it polls any.
func (r *replica) leave(t *testing.T, n int) (orders []*Order) {
	t.Helper()
	for i := range n {
		o := mustPlace(t, r.buyer, spec())
		if ok, err := r.store.Mark(t.Context(), o.Ref); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if ok, err := r.store.Submitted(t.Context(), o.Ref, fmt.Sprint("t", i)); err != nil || !ok {
			t.Fatal(ok, err)
		}
		orders = append(orders, o)
	}
	time.Sleep(pool.Lease + time.Millisecond)
	return orders
}

// collect adopts what there is and sees it through.
func (r *replica) collect(t *testing.T) (landed int) {
	t.Helper()
	adopted, err := r.buyer.recovery.adopt(t.Context())
	if err != nil {
		t.Errorf("adopt = %v", err)
	}
	for _, o := range adopted {
		if ended := r.buyer.orders.collect(t.Context(), o); ended.Err != nil {
			t.Errorf("collect = %v", ended.Err)
		}
	}
	return len(adopted)
}

// want compares what is left in Redis, and how many tokens came of it.
func (r *replica) wantLeft(t *testing.T, orders, places, tokens int, names ...string) {
	t.Helper()
	look, err := r.store.Look(t.Context(), spec().ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	held, err := r.store.InFlight(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range held {
		sum += n
	}
	if look.Orders != orders || sum != places || look.Fresh != tokens {
		t.Errorf("%d orders, %d places, %d tokens; want %d, %d, %d", look.Orders, sum, look.Fresh, orders, places, tokens)
	}
}

// Orders of a replica that died are collected by whoever can ask for them: the
// account counts, not the name that the file has for it now.
func TestOrdersAreAskedForAtTheirAccount(t *testing.T) {
	for name, c := range map[string]struct {
		before []string // names and accounts of the one that died, of its successor
		reload []string // and after a reload there, if any
		after  []string
		asked  string // who gives the tokens
	}{
		"as it was":           {before: []string{"one", "x"}, after: []string{"two", "y", "one", "x"}, asked: "one"},
		"renamed":             {before: []string{"one", "x"}, after: []string{"two", "x"}, asked: "two"},
		"behind another":      {before: []string{"one", "x"}, after: []string{"three", "y", "two", "x"}, asked: "two"},
		"the name is reused":  {before: []string{"one", "x"}, after: []string{"one", "y", "two", "x"}, asked: "two"},
		"twice in the file":   {before: []string{"one", "x"}, after: []string{"two", "x", "one", "x"}, asked: "one"},
		"with another key":    {before: []string{"one", "x"}, after: []string{"two", "z", "one", "y"}, asked: "one"},
		"by an older version": {before: []string{"one", ""}, after: []string{"two", "", "one", "x"}, asked: "one"},
		"removed by a reload": {before: []string{"one", "x"}, reload: []string{"one", "x"}, after: []string{"two", "y"}, asked: "one"},
		"renamed by a reload": {before: []string{"one", "x"}, reload: []string{"one", "x"}, after: []string{"two", "x"}, asked: "two"},
		"gone two reloads ago, and the name is reused": {
			before: []string{"one", "x"}, reload: []string{"one", "x", "three", "z"}, after: []string{"one", "y"}, asked: "one of old",
		},
	} {
		runBubble(t, name, func(t *testing.T) {
			redis := redistest.InBubble(t)
			died := newReplica(t, pool.Options{Dial: redis.Dial})
			died.buyer.SetProviders(died.list(c.before))
			died.leave(t, 3)

			heir := newReplica(t, pool.Options{Dial: redis.Dial})
			if c.reload != nil {
				before := heir.list(c.reload)
				if c.asked == "one of old" {
					before[0].Provider.(*fakeProvider).name = "one"
					before[0].Provider = named{before[0].Provider.(*fakeProvider), "one of old"}
				}
				heir.buyer.SetProviders(before)
			}
			heir.buyer.SetProviders(heir.list(c.after))
			if n := heir.collect(t); n != 3 {
				t.Errorf("%d orders were adopted, want 3", n)
			}
			heir.wantLeft(t, 0, 0, 3, "one", "two", "three")
			want := "login at " + c.asked + ": solved"
			if got := heir.all(); !slices.Contains(got, want) || slices.ContainsFunc(got, func(e string) bool {
				return strings.HasSuffix(e, "solved") && e != want
			}) {
				t.Errorf("what happened: %q, want them solved at %s", got, c.asked)
			}
			if slots := heir.buyer.slots(); slices.Max(slots) != 0 {
				t.Errorf("%v slots are taken", slots)
			}
			if got := heir.buyer.Stranded(); len(got) != 0 || strings.Contains(heir.logged.String(), "ERROR") {
				t.Errorf("stranded %+v, logged:\n%s", got, heir.logged.String())
			}
		})
	}
}

// named is a provider that tells another name than it writes down.
type named struct {
	*fakeProvider
	name string
}

func (n named) Name() string { return n.name }

// list makes entries of names and accounts.
func (r *replica) list(names []string) (entries []Entry) {
	for ; len(names) > 0; names = names[2:] {
		entries = append(entries, r.at(names[0], names[1]))
	}
	return entries
}

// Where nobody can be asked that is told at once, with how many and until when,
// and once. The orders are left to whoever can ask, and are collected when the
// provider is listed again.
func TestStrandedOrdersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		deadline := leftAtOne(t, redis, 3)

		heir := newReplica(t, pool.Options{Dial: redis.Dial})
		heir.buyer.SetProviders(heir.list([]string{"two", "y"}))
		for range 10 {
			if n := heir.collect(t); n != 0 {
				t.Fatalf("%d orders were adopted", n)
			}
			got := heir.buyer.Stranded()
			if len(got) != 1 || got[0].Provider != "one" || got[0].Orders != 3 || got[0].Until.Sub(deadline).Abs() > time.Second {
				t.Fatalf("stranded %+v, want 3 of one until %v", got, deadline)
			}
			time.Sleep(2 * time.Second)
		}
		if n := strings.Count(heir.logged.String(), "level=ERROR"); n != 1 || !strings.Contains(heir.logged.String(), "provider=one orders=3 until=") {
			t.Errorf("told %d times:\n%s", n, heir.logged.String())
		}
		if want := []string(nil); !slices.Equal(heir.all(), want) {
			t.Errorf("what happened: %q", heir.all())
		}
		heir.wantLeft(t, 3, 3, 0, "one")

		// Another replica can ask, and finds them free.
		other := newReplica(t, pool.Options{Dial: redis.Dial})
		other.buyer.SetProviders(other.list([]string{"three", "x"}))
		adopted, err := other.buyer.recovery.adopt(t.Context())
		if err != nil || len(adopted) != 3 {
			t.Fatalf("the other one adopted %d, %v", len(adopted), err)
		}
		if r := other.buyer.orders.collect(t.Context(), adopted[0]); r.Err != nil {
			t.Error(r.Err)
		}
		other.buyer.recovery.abandon(t.Context(), adopted[1])
		// One is in work there.
		for range 6 {
			if _, err := other.store.Renew(t.Context(), []pool.Ref{adopted[2].Ref}); err != nil {
				t.Error(err)
			}
			heir.collect(t)
			time.Sleep(2 * time.Second)
		}
		if got := heir.buyer.Stranded(); len(got) != 1 || got[0].Orders != 1 {
			t.Errorf("stranded %+v, want the one that nobody works on", got)
		}
		// It is listed again.
		heir.buyer.SetProviders(heir.list([]string{"two", "y", "uno", "x"}))
		if n := heir.collect(t); n != 1 {
			t.Errorf("%d orders were adopted, want 1", n)
		}
		if got := heir.buyer.Stranded(); len(got) != 0 {
			t.Errorf("stranded %+v", got)
		}
		heir.wantLeft(t, 1, 1, 2, "one")
	})
}

// leftAtOne has a replica that dies leave n orders at account "x" of "one", and answers
// when the last of them is forgotten.
func leftAtOne(t *testing.T, redis *redistest.Bubble, n int) (deadline time.Time) {
	t.Helper()
	died := newReplica(t, pool.Options{Dial: redis.Dial})
	died.buyer.SetProviders(died.list([]string{"one", "x"}))
	died.leave(t, n)
	return died.orderDeadline(t)
}

// orderDeadline is when the last order of the identity is forgotten.
func (r *replica) orderDeadline(t *testing.T) (last time.Time) {
	t.Helper()
	refs, err := r.store.Holders(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		record, there, err := r.store.Find(t.Context(), ref)
		if err != nil || !there {
			t.Fatal(there, err)
		}
		if record.Until.After(last) {
			last = record.Until
		}
	}
	return last
}

// What nobody can be asked about counts until its time is over, and is told no
// longer.
func TestStrandedOrdersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		deadline := leftAtOne(t, redis, 2)
		heir := newReplica(t, pool.Options{Dial: redis.Dial})
		for time.Until(deadline) > 0 {
			if heir.collect(t); len(heir.buyer.Stranded()) != 1 {
				t.Fatalf("stranded %+v, %v before the end", heir.buyer.Stranded(), time.Until(deadline))
			}
			time.Sleep(2 * time.Second)
		}
		heir.collect(t)
		if got := heir.buyer.Stranded(); len(got) != 0 {
			t.Errorf("stranded %+v after their end", got)
		}
		for range 10 {
			time.Sleep(2 * time.Second)
			heir.collect(t)
		}
		heir.wantLeft(t, 0, 0, 0, "one")
		if n := strings.Count(heir.logged.String(), "level=ERROR"); n != 1 {
			t.Errorf("told %d times:\n%s", n, heir.logged.String())
		}
	})
}

// What was not submitted, or may have been, needs nobody to be asked: it ends as
// it would under a name that the file has.
func TestNoOneNeedsToBeAskedAboutIntents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		died := newReplica(t, pool.Options{Dial: redis.Dial})
		died.buyer.SetProviders(died.list([]string{"one", "x"}))
		for _, marked := range []bool{false, true} {
			o := mustPlace(t, died.buyer, spec())
			if marked {
				if ok, err := died.store.Mark(t.Context(), o.Ref); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
		}
		time.Sleep(pool.Lease + time.Millisecond)
		heir := newReplica(t, pool.Options{Dial: redis.Dial})
		if n := heir.collect(t); n != 0 {
			t.Errorf("%d orders were adopted", n)
		}
		heir.wantLeft(t, 1, 1, 0, "one")
		if got := heir.buyer.Stranded(); len(got) != 0 {
			t.Errorf("stranded %+v", got)
		}
	})
}

// A buyer remembers who went for as long as orders can be under way there, once an
// account, and not where the list has the account.
func TestFormerProvidersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replica{ledger: &ledger{}}
		r.buyer = NewBuyer(nil, "", witness{r.ledger}, quiet())
		former := func() (names []string) {
			for _, s := range r.buyer.accounts.former {
				names = append(names, s.Name())
			}
			return names
		}
		for _, step := range []struct {
			wait    time.Duration
			list    []string
			remains []string
		}{
			{0, []string{"a", "x", "b", "y", "c", ""}, nil},
			{0, []string{"b", "y"}, []string{"a"}},         // c has no account, b is still there
			{time.Hour, []string{"d", "x"}, []string{"b"}}, // a's account is listed again
			{0, []string{"e", "y"}, []string{"d"}},
			{0, []string{"f", "x"}, []string{"e"}},
			{0, []string{"g", "z"}, []string{"f", "e"}},
			{26 * time.Hour, []string{"g2", "z"}, []string{"f", "e"}},
			{time.Millisecond, []string{"g3", "z"}, nil},
		} {
			time.Sleep(step.wait)
			if r.buyer.SetProviders(r.list(step.list)); !slices.Equal(former(), step.remains) {
				t.Errorf("with %q it remembers %q, want %q", step.list, former(), step.remains)
			}
		}
	})
}

// An account is its API, address and key, and tells nobody the key.
func TestAccounts(t *testing.T) {
	const key = captcha.Secret("0123456789abcdef0123456789abcdef")
	one := Account("legacy", "https://example.com", key)
	if Account("legacy", "https://example.com/", key) != one {
		t.Error("a slash at the end makes another account")
	}
	for _, other := range []string{
		Account("tasks", "https://example.com", key), Account("legacy", "https://example.org", key),
		Account("legacy", "https://example.com", key+"0"), Account("legacy", "https://example.com", ""),
	} {
		if other == one {
			t.Error("two accounts have one name")
		}
	}
	if len(one) != 12 || strings.Contains(DeriveSecret(key).Reveal(), one) {
		t.Errorf("%q: want 12 digits of a hash of its own", one)
	}
}

// A callback under a name that the file had is signed by the same account: it lands
// its token, gives the place back that was taken under that name, and the token is
// of the provider that takes reports on it now.
func TestCallbacksUnderAFormerName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		died := newReplica(t, pool.Options{Dial: redis.Dial})
		died.buyer.SetProviders(died.list([]string{"one", "x"}))
		order := died.leave(t, 1)[0].String()
		heir := newReplica(t, pool.Options{Dial: redis.Dial})
		renamed := heir.at("two", "x")
		renamed.Callbacks.Secrets = []captcha.Secret{"first"}
		heir.buyer.SetProviders([]Entry{renamed})
		for _, secret := range []captcha.Secret{"third", "first"} {
			if err := heir.buyer.Callback(t.Context(), Callback{
				Provider: "one", Order: order, Secret: sign(secret, "one", order), At: time.Now(),
				Query: url.Values{"id": {"t0"}, "code": {"03AFcallback"}},
			}); err != nil {
				t.Error(err)
			}
		}
		heir.want(t, "callback forged", "login at two: solved", "callback settled")
		heir.wantLeft(t, 0, 0, 1, "one")
	})
}

// A replica that gave the next probe to an order which was not placed learns that polls are
// answered. It shares that, and the probe that came back stays another replica's.
func TestAnAnsweredPollDelaysNoProbe(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		as, others := s.buyer.accounts, s.stock.other()
		a := as.named("one")
		fault := provider.Fault{
			Kind: provider.FaultAccount, Code: "IP_BANNED", Action: "submit", Since: time.Now(), Next: time.Now().Add(time.Minute), Every: time.Minute,
		}
		s.provider.Adopt(t.Context(), &fault)
		as.share(t.Context(), a)
		next := func() time.Duration {
			t.Helper()
			standing, err := others.Standing(t.Context(), "one")
			if err != nil || standing.Fault == nil {
				t.Fatal(standing, err)
			}
			return standing.Fault.Next
		}
		if n := next(); n != time.Minute {
			t.Fatalf("the next probe is in %v", n)
		}
		if _, err := others.ProbeNow(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		polled := fault
		polled.Polls = true
		s.provider.Adopt(t.Context(), &polled)
		as.share(t.Context(), a)
		if n := next(); n > 0 {
			t.Errorf("after an answered poll the next probe is in %v", n)
		}
		// The fault is met again by that probe.
		again := polled
		again.Since, again.Next = time.Now().Add(time.Second), time.Now().Add(time.Minute)
		s.provider.Adopt(t.Context(), &again)
		as.share(t.Context(), a)
		if n := next(); n != time.Minute {
			t.Errorf("after the probe was refused the next one is in %v", n)
		}
	})
}

// partOfStock cannot tell the orders at any provider.
type partOfStock struct{ Orders }

func (partOfStock) InFlight(_ context.Context, providers []string) ([]int, error) {
	counts := make([]int, len(providers))
	for i := range counts {
		counts[i] = -1
	}
	return counts, nil
}

// The places at a provider are in one part of Redis. While that is away nothing is
// bought there, and the provider's state says why.
func TestAProvidersPlacesAreAway(t *testing.T) {
	withBuyer(t, 9, func(t *testing.T, s *testBuyer) {
		s.buyer.stock = partOfStock{s.buyer.stock}
		got := s.buyer.Providers(t.Context(), time.Now())[0]
		if got.State.Kind != provider.StateDown || !strings.Contains(got.State.Reason, "redis node") || got.InFlight != 0 {
			t.Errorf("%+v", got)
		}
	})
}
