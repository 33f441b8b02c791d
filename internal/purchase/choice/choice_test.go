package choice

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// known returns the sums of a provider with many outcomes.
func known(solved, accepted float64) pool.Sums {
	return pool.Sums{
		"order:ended": 40, "order:solved": 40 * solved,
		"report:accepted:a": 40 * accepted, "report:rejected:a": 40 * (1 - accepted),
	}
}

func TestBestChoosesTheCheapestAcceptedToken(t *testing.T) {
	quiet := pool.Sums{"order:ended": 9, "order:solved": 9}
	for _, c := range []struct {
		name   string
		prices []float64
		sums   []pool.Sums
		dice   float64
		want   int
		how    string
	}{
		{"nothing is known: the price decides", []float64{2, 1}, []pool.Sums{nil, nil}, 1, 1, Best},
		{"equal costs: the first", []float64{1.01, 1}, []pool.Sums{nil, nil}, 1, 0, Best},
		{"failures cost more than the price", []float64{1, 1.5}, []pool.Sums{known(0.5, 1), known(1, 1)}, 1, 1, Best},
		{"rejections cost more than the price",
			[]float64{1, 1.5}, []pool.Sums{known(1, 0.5), known(1, 1)}, 1, 1, Best},
		{"without reports all tokens count as accepted", []float64{1, 1.2}, []pool.Sums{quiet, quiet}, 1, 0, Best},
		{"an unknown provider is not chosen, although its price is lower",
			[]float64{1.3, 1}, []pool.Sums{known(1, 1), nil}, 1, 0, Best},
		{"an unknown provider gets a share of the orders",
			[]float64{1.3, 1}, []pool.Sums{known(1, 1), nil}, 0.02, 1, Explore},
		{"an unknown provider that can save nothing gets no order",
			[]float64{1.3, 1.3}, []pool.Sums{known(1, 1), nil}, 0.02, 0, Best},
		{"of two unknown providers one gets an order",
			[]float64{1.3, 1, 1}, []pool.Sums{known(1, 1), nil, nil}, 0.001, 1, Explore},
		{"the other unknown provider gets an order, too",
			[]float64{1.3, 1, 1}, []pool.Sums{known(1, 1), nil, nil}, 0.0299, 2, Explore},
		{"if a price is unknown, all prices count as equal",
			[]float64{-1, 1}, []pool.Sums{known(0.8, 1), known(1, 1)}, 1, 1, Best},
		{"if a price is 0, all prices count as equal",
			[]float64{0, 1}, []pool.Sums{known(0.8, 1), known(1, 1)}, 1, 1, Best},
		{"everything fails everywhere", []float64{1, 2}, []pool.Sums{known(0, 0), known(0, 0)}, 1, 0, Best},
		{"one offer", []float64{1}, []pool.Sums{known(0, 0)}, 0.01, 0, Best},
	} {
		if index, how := best(c.prices, c.sums, c.dice); index != c.want || how != c.how {
			t.Errorf("%s: %d, %s, want %d, %s", c.name, index, how, c.want, c.how)
		}
	}
}

// A caller's reports weigh at most half if others report. A caller with nearly all reports decides alone.
func TestTheWeightOfOneCallersReports(t *testing.T) {
	for _, c := range []struct {
		spite, others float64 // weights of the rejections of one caller, and of the acceptances of the others
		want          float64
	}{{0, 20, 1}, {10, 20, 0.667}, {20, 20, 0.5}, {35, 5, 0.5}, {38, 2, 0.05}, {40, 0, 0}} {
		s := pool.Sums{"report:rejected:x": c.spite, "report:accepted:a": c.others / 2, "report:accepted:b": c.others / 2}
		accepted, all := reports(s)
		testkit.AtMost(t, fmt.Sprintf("%+v: difference of the share", c), math.Abs(accepted/all-c.want), 0.001)
	}
}

// replica is a Chooser at a Redis in a bubble, with the providers a (1 per 1000) and b (1.2 per 1000).
type replica struct {
	*Chooser
	pool *pool.Pool
}

func priced(name string, price float64) Offer {
	return Offer{name, func(captcha.Type) float64 { return price }}
}

func start(t *testing.T, server *redistest.Bubble, providers ...string) *replica {
	t.Helper()
	db, _ := server.Client(redis.Options{})
	t.Cleanup(func() { _ = db.Close() })
	r := new(replica)
	log := slog.New(slog.DiscardHandler)
	r.pool = pool.New(pool.Config{Slow: db, Fast: db, Prefix: "p", Replica: "r", Log: log})
	r.Chooser = New(r.pool, log)
	var list []Offer
	for i, name := range providers {
		list = append(list, priced(name, 0.001+0.0002*float64(i)))
	}
	r.SetProviders(list)
	return r
}

// end places and ends an order, and returns its name, which is its identity, too.
func (r *replica) end(t *testing.T, provider string, how pool.Outcome) (order string) {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprint("o", time.Now().UnixNano())
	o := &pool.Order{
		Name: name, ID: captcha.ID(name), Account: provider, Key: provider, Life: time.Minute,
		Concurrency: 9, Depth: 9, Price: -1,
	}
	_, _, err := r.pool.Place(ctx, o)
	if err == nil {
		_, err = r.pool.Begin(ctx, o.Name, "n")
	}
	if err == nil {
		_, err = r.pool.Bought(ctx, o, o.Name, "")
	}
	if err == nil {
		_, _, err = r.pool.End(ctx, o, &pool.End{
			Outcome: how, Anyone: true, Provider: provider, Value: o.Name, Task: o.Name, Lifetime: time.Minute,
			Lead: 10 * time.Second, Type: captcha.HCaptcha,
		})
	}
	testkit.NoError(t, err)
	time.Sleep(time.Second)
	r.Read(ctx)
	return o.Name
}

// All replicas choose by the same sums, also a replica that starts later.
func TestReplicasShareTheSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		r := start(t, server, "a", "b")
		chooses := func(r *replica) string {
			i, how := r.Choose(Best, captcha.HCaptcha, false, []Offer{priced("a", 0.001), priced("b", 0.0012)})
			cheapest, _ := r.Choose(Cheapest, captcha.HCaptcha, false, []Offer{priced("b", 0.0012), priced("a", 0)})
			testkit.Equal(t, "the cheapest", cheapest, 1)
			return fmt.Sprint(i, how)
		}
		for range 20 {
			order := r.end(t, "a", pool.Solved)
			_, _, err := r.pool.Report(t.Context(), order, captcha.ID(order), true, "qa", "n", "")
			testkit.NoError(t, err)
			r.end(t, "b", pool.Solved)
			r.end(t, "b", pool.Busy) // says nothing about the provider's work
			r.end(t, "a", pool.Solved)
		}
		testkit.Equal(t, "while a is cheaper and both solve", chooses(r), "0best")
		rows := r.Rows()
		near := func(got, want float64) bool { return math.Abs(got/want-1) < 0.05 }
		if len(rows) != 2 || !near(rows[0].Share, 0.667) || !near(rows[0].Accepted, 1) || !near(rows[0].Cost, 0.00102) ||
			rows[0].Reports < 15 || rows[1].Reports != 0 ||
			!near(rows[1].LeadP50.Seconds(), 10) || !near(rows[1].LeadP90.Seconds(), 10) {
			t.Errorf("%+v", rows)
		}
		for range 25 {
			r.end(t, "a", pool.Failed)
		}
		for range 25 {
			r.end(t, "b", pool.Solved)
		}
		late := start(t, server, "a", "b")
		late.Read(t.Context())
		if chooses(r) != "1best" || chooses(late) != "1best" {
			t.Errorf("chooses %s, and a replica that starts later %s", chooses(r), chooses(late))
		}
		// The sums fade: a is unknown, and cheaper.
		time.Sleep(5 * time.Hour)
		r.Read(t.Context())
		testkit.Equal(t, "five hours later", chooses(r), "0best")
		server.SetDown(true)
		limited, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		r.Read(limited)
		testkit.Equal(t, "rows of before the outage", len(r.Rows()), 2)
	})
}

// A refusal of the parameters concerns its identity alone, for ten minutes. With one provider nothing is read.
func TestARefusalConcernsItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		r := start(t, server, "a", "b")
		id := captcha.ID(r.end(t, "a", pool.BadParameters))
		for _, want := range []string{"[a]", "[]"} {
			c, err := r.pool.Counts(t.Context(), pool.Query{ID: id})
			if got := fmt.Sprint(c.Brake.Avoid); err != nil || got != want {
				t.Errorf("avoids %s, want %s, %v", got, want, err)
			}
			time.Sleep(10 * time.Minute)
		}
		testkit.Equal(t, "rows after a refusal", len(r.Rows()), 0)
		r.end(t, "b", pool.Solved)
		one := start(t, server, "b")
		one.Read(t.Context())
		testkit.Equal(t, "rows of one provider", len(one.Rows()), 0)
	})
}
