package purchase

import (
	"bytes"
	"cmp"
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
	"poold/internal/purchase/signature"
	"poold/internal/redisdb/redistest"
)

// replica is a buyer with its own store, like a separate process.
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

// entryAt returns the entry of a fake provider that records its polls in the ledger.
func (r *replica) entryAt(name, account string) Entry {
	return Entry{Provider: newFakeProvider(r.ledger, name), Account: account, Concurrency: 9}
}

// leaveOrders places n orders, stores their task ids and lets their leases expire, as after the
// death of a replica before its first poll.
func (r *replica) leaveOrders(t *testing.T, n int) (orders []*Order) {
	t.Helper()
	for i := range n {
		o := mustPlace(t, r.buyer, spec())
		if ok, err := r.store.MarkSubmitting(t.Context(), o.Ref); err != nil || !ok {
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

// collect adopts the orders without a lease and collects them one after another.
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

// wantLeft checks the numbers of orders, permits and tokens in Redis.
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
		t.Errorf("%d orders, %d permits, %d tokens; want %d, %d, %d", look.Orders, sum, look.Fresh, orders, places, tokens)
	}
}

// An order of a dead replica is collected at its account, even if a provider with a different name
// now has this account.
func TestOrdersAreCollectedAtTheirAccount(t *testing.T) {
	for name, c := range map[string]struct {
		before []string // names and accounts in the dead replica's file
		reload []string // names and accounts in the next process' first file; nil = the file is not reloaded
		after  []string // names and accounts in the current file
		asked  string   // the provider that is polled
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
			died.buyer.SetProviders(died.entries(c.before))
			died.leaveOrders(t, 3)

			heir := newReplica(t, pool.Options{Dial: redis.Dial})
			if c.reload != nil {
				before := heir.entries(c.reload)
				if c.asked == "one of old" {
					before[0].Provider.(*fakeProvider).name = "one"
					before[0].Provider = renamedProvider{before[0].Provider.(*fakeProvider), "one of old"}
				}
				heir.buyer.SetProviders(before)
			}
			heir.buyer.SetProviders(heir.entries(c.after))
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

// renamedProvider is a fake provider whose name differs from the name in the ledger.
type renamedProvider struct {
	*fakeProvider
	name string
}

func (n renamedProvider) Name() string { return n.name }

// entries converts pairs of a name and an account to entries.
func (r *replica) entries(names []string) (entries []Entry) {
	for ; len(names) > 0; names = names[2:] {
		entries = append(entries, r.entryAt(names[0], names[1]))
	}
	return entries
}

// Orders whose account is not configured are reported. They are logged once, with their number and
// expiry. Their leases end, so that another replica can adopt them. When the account is configured
// again, this replica collects the orders.
func TestStrandedOrdersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		deadline := leftAtOne(t, redis, 3)

		heir := newReplica(t, pool.Options{Dial: redis.Dial})
		heir.buyer.SetProviders(heir.entries([]string{"two", "y"}))
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
			t.Errorf("logged %d times:\n%s", n, heir.logged.String())
		}
		if want := []string(nil); !slices.Equal(heir.all(), want) {
			t.Errorf("what happened: %q", heir.all())
		}
		heir.wantLeft(t, 3, 3, 0, "one")

		// Another replica has the account and adopts the orders, which have no lease.
		other := newReplica(t, pool.Options{Dial: redis.Dial})
		other.buyer.SetProviders(other.entries([]string{"three", "x"}))
		adopted, err := other.buyer.recovery.adopt(t.Context())
		if err != nil || len(adopted) != 3 {
			t.Fatalf("the other replica adopted %d, %v", len(adopted), err)
		}
		if r := other.buyer.orders.collect(t.Context(), adopted[0]); r.Err != nil {
			t.Error(r.Err)
		}
		other.buyer.recovery.abandon(t.Context(), adopted[1])
		// One of the orders is in flight at the other replica.
		for range 6 {
			if _, err := other.store.Renew(t.Context(), []pool.Ref{adopted[2].Ref}); err != nil {
				t.Error(err)
			}
			heir.collect(t)
			time.Sleep(2 * time.Second)
		}
		if got := heir.buyer.Stranded(); len(got) != 1 || got[0].Orders != 1 {
			t.Errorf("stranded %+v, want the order that no replica runs", got)
		}
		// The account is configured again.
		heir.buyer.SetProviders(heir.entries([]string{"two", "y", "uno", "x"}))
		if n := heir.collect(t); n != 1 {
			t.Errorf("%d orders were adopted, want 1", n)
		}
		if got := heir.buyer.Stranded(); len(got) != 0 {
			t.Errorf("stranded %+v", got)
		}
		heir.wantLeft(t, 1, 1, 2, "one")
	})
}

// leftAtOne creates n orders of a dead replica at account "x" of provider "one". It returns the
// time at which the last of these orders expires.
func leftAtOne(t *testing.T, redis *redistest.Bubble, n int) (deadline time.Time) {
	t.Helper()
	died := newReplica(t, pool.Options{Dial: redis.Dial})
	died.buyer.SetProviders(died.entries([]string{"one", "x"}))
	died.leaveOrders(t, n)
	return died.orderDeadline(t)
}

// orderDeadline returns when the last order of the identity expires.
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

// API, address and key identify an account. The id of the account does not reveal the key.
func TestAccountIDs(t *testing.T) {
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
	if len(one) != 12 || strings.Contains(signature.Derive(key).Reveal(), one) {
		t.Errorf("%q: want 12 digits of a hash of its own", one)
	}
}

// A callback to a provider's former name has the signature of the account. The callback lands the
// token and releases the permit under the former name. Reports about the token go to the current
// name.
func TestACallbackUnderAFormerNameLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		died := newReplica(t, pool.Options{Dial: redis.Dial})
		died.buyer.SetProviders(died.entries([]string{"one", "x"}))
		order := died.leaveOrders(t, 1)[0].String()
		heir := newReplica(t, pool.Options{Dial: redis.Dial})
		renamed := heir.entryAt("two", "x")
		renamed.Callbacks.Secrets = []captcha.Secret{"first"}
		heir.buyer.SetProviders([]Entry{renamed})
		for _, secret := range []captcha.Secret{"third", "first"} {
			if err := heir.buyer.Callback(t.Context(), Callback{
				Provider: "one", Order: order, Secret: signature.Of(secret, "one", order), At: time.Now(),
				Query: url.Values{"id": {"t0"}, "code": {"03AFcallback"}},
			}); err != nil {
				t.Error(err)
			}
		}
		heir.want(t, "callback forged", "login at two: solved", "callback settled")
		heir.wantLeft(t, 0, 0, 1, "one")
	})
}
