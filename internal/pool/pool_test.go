package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

func testOrderLandsAndIsTaken(t *testing.T, o Options) {
	s, id := open(t, o), identity("a")

	// The depth of two allows two orders and refuses a third one. A repeated call for one of the two
	// orders does not count again.
	for _, step := range []struct {
		order  string
		placed bool
		orders int
	}{{"one", true, 1}, {"two", true, 2}, {"one", true, 2}, {"three", false, 2}} {
		got, err := s.Place(t.Context(), Order{Ref: Ref{id, step.order}, Depth: 2, TTL: time.Minute})
		if orders := look(t, s, id).Orders; err != nil || got.Placed != step.placed || orders != step.orders {
			t.Fatalf("placing %s: %+v, %d orders, %v", step.order, got, orders, err)
		}
	}
	expect(t, true)(s.Submitted(t.Context(), Ref{id, "one"}, "4711"))

	land(t, s, id, "one", 3*time.Second, time.Minute)
	again, err := s.Settle(t.Context(), Landing{Ref: Ref{id, "one"}, Value: "x", Lifetime: time.Minute})
	if err != nil || again != Gone {
		t.Fatalf("an order settled twice: %v, %v", again, err)
	}
	if how, err := s.Fail(t.Context(), Failure{Ref: Ref{id, "two"}, Bought: true}); err != nil || how != Ended {
		t.Fatalf("failing: %v, %v", how, err)
	}

	got := look(t, s, id)
	if got.Fresh != 1 || got.Orders != 0 || got.Figures.Solved != 1 || got.Figures.Failed != 1 ||
		len(got.Leads) != 1 || got.Leads[0] != 2*time.Second {
		t.Fatalf("after one landed and one failed: %+v", got)
	}
	if got.NextExpiry < 50*time.Second || got.NextExpiry > 57*time.Second {
		t.Fatalf("a token 3 s old of a minute expires in %v", got.NextExpiry)
	}

	token, err := s.Take(t.Context(), Request{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token.ID, "one.") || token.Value != "token|of one" || token.UserAgent != "agent | 1" ||
		token.Provider != "p" || token.Source != FromPool || token.Dies.Sub(token.Born) != time.Minute {
		t.Fatalf("took %+v", token)
	}
	if _, err := s.Take(t.Context(), Request{ID: id}); !isEmpty(err) {
		t.Fatalf("the second take: %v", err)
	}
	if f := look(t, s, id).Figures; f.Requests != 2 || f.Hits != 1 || f.Misses != 1 {
		t.Fatalf("figures: %+v", f)
	}
}

func testLifeIsJudgedInTheScript(t *testing.T, o Options) {
	s, id := open(t, o), identity("b")
	const lifetime = 100 * time.Second
	// The tokens land out of order, so that the script must sort them.
	stock(t, s, id, 1, 10*time.Second, lifetime) // 90 s left
	stock(t, s, id, 1, 95*time.Second, lifetime) // 5 s left
	stock(t, s, id, 1, 50*time.Second, lifetime) // 50 s left
	stock(t, s, id, 1, 99*time.Second, lifetime) // 1 s left

	counted, err := s.Look(t.Context(), id, 2*time.Second, 10*time.Second)
	if err != nil || counted.Fresh != 3 || counted.Outliving != 2 || counted.Figures.Expired != 1 {
		t.Fatalf("with a margin of 2 s and a lead of 10 s: %+v, %v", counted, err)
	}
	for _, step := range []struct {
		request Request
		least   time.Duration // 0 = none
		most    time.Duration
	}{
		{Request{MinTTL: 40 * time.Second}, 45 * time.Second, 50 * time.Second}, // the first token that is fresh enough, not the freshest
		{Request{MinTTL: 91 * time.Second}, 0, 0},
		{Request{Margin: 2 * time.Second}, 3 * time.Second, 5 * time.Second}, // the token that dies first
		{Request{MinTTL: time.Second}, 85 * time.Second, 90 * time.Second},
		{Request{}, 0, 0},
	} {
		step.request.ID = id
		token, err := s.Take(t.Context(), step.request)
		if step.least == 0 {
			if !isEmpty(err) {
				t.Fatalf("%+v: took %+v, %v", step.request, token, err)
			}
			continue
		}
		if err != nil || token.TTL < step.least || token.TTL > step.most {
			t.Fatalf("%+v: %v left, %v", step.request, token.TTL, err)
		}
	}
	// A changed margin applies to the stock immediately.
	stock(t, s, id, 2, 60*time.Second, lifetime)
	if _, err := s.Take(t.Context(), Request{ID: id, Margin: 41 * time.Second}); !isEmpty(err) {
		t.Fatalf("a token inside its margin: %v", err)
	}
	if f := look(t, s, id).Figures; f.Expired != 3 {
		t.Fatalf("expired: %+v", f)
	}
}

func testIdempotencyKeyRepeatsTheToken(t *testing.T, o Options) {
	s, id := open(t, o), identity("c")
	stock(t, s, id, 2, 0, time.Minute)
	// A request with another min_ttl is a different request, even if this min_ttl is shorter than the
	// margin.
	request := Request{ID: id, Margin: 10 * time.Second, Idempotency: "caller\x00k1"}
	first, err := s.Take(t.Context(), request)
	if err != nil || first.Source != FromPool {
		t.Fatalf("first: %+v, %v", first, err)
	}
	again, err := s.Take(t.Context(), request)
	if err != nil || again.ID != first.ID || again.Source != FromReplay {
		t.Fatalf("again: %+v, %v", again, err)
	}
	// The token stays with its caller.
	if err := s.Return(first); err != nil || look(t, s, id).Fresh != 1 {
		t.Fatalf("a token with a key was returned: %v", err)
	}
	request.MinTTL = time.Second
	if _, err := s.Take(t.Context(), request); !errors.Is(err, ErrConflict) {
		t.Fatalf("with another min_ttl: %v", err)
	}
	// A bound key can be used for only one identity until the binding expires.
	two := open(t, o)
	for i, step := range []struct {
		on   *replica
		key  string
		id   captcha.ID
		want error
	}{
		{s, "k", id, nil}, {two, "k", id, nil}, {two, "k", identity("c2"), ErrConflict}, {s, "other", identity("c2"), nil}, {s, "k", id, nil},
	} {
		if err := step.on.Bind(t.Context(), step.key, step.id, time.Second); !errors.Is(err, step.want) {
			t.Errorf("binding %d: %v, want %v", i, err, step.want)
		}
	}
	time.Sleep(1100 * time.Millisecond)
	if err := s.Bind(t.Context(), "k", identity("c2"), time.Minute); err != nil {
		t.Errorf("a key whose time is over: %v", err)
	}
	other, err := s.Take(t.Context(), Request{ID: id, Idempotency: "caller\x00k2"})
	if err != nil || other.ID == first.ID {
		t.Fatalf("another key: %+v, %v", other, err)
	}
	if f := look(t, s, id).Figures; f.Requests != 2 || f.Hits != 2 || f.Replays != 1 {
		t.Fatalf("figures: %+v", f)
	}
}

func testReturnHappensOnce(t *testing.T, o Options) {
	s, id := open(t, o), identity("d")
	stock(t, s, id, 1, 0, time.Minute)
	first, err := s.Take(t.Context(), Request{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // retries, as after lost replies
		giveBack(t, s, first)
	}
	second, err := s.Take(t.Context(), Request{ID: id})
	if err != nil || second.ID != first.ID {
		t.Fatalf("after the return: %+v, %v", second, err)
	}
	giveBack(t, s, first) // late copy of the first return
	if got := look(t, s, id); got.Fresh != 0 || got.Figures.Returned != 1 {
		t.Fatalf("a hand-out was returned twice: %+v", got)
	}
}

func testOrdersRunOutAndPauseStopsThem(t *testing.T, o Options) {
	s, id := open(t, o), identity("f")
	order := Order{Ref: Ref{id, "x"}, Depth: 1, TTL: 60 * time.Millisecond, PerHour: 10}
	put := func() Placing {
		t.Helper()
		got, err := s.Place(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	// If an order is still in the state Intent at its deadline, it was not bought. If the order was
	// about to be submitted, it may have been bought.
	if !put().Placed {
		t.Fatal("not placed")
	}
	time.Sleep(70 * time.Millisecond)
	if got := look(t, s, id); got.Orders != 0 || got.Figures.Lost != 0 || got.HourUsed != 0 {
		t.Fatalf("an intent past its time: %+v", got)
	}
	order.Order = "y"
	if !put().Placed {
		t.Fatal("not placed")
	}
	expect(t, true)(s.MarkSubmitting(t.Context(), order.Ref))
	time.Sleep(70 * time.Millisecond)
	if got := look(t, s, id); got.Orders != 0 || got.Figures.Lost != 1 || got.Figures.Bought != 1 || got.HourUsed != 1 {
		t.Fatalf("an order past its time: %+v", got)
	}
	must(t, s.Pause(t.Context(), id, Pause{}))
	order.Order = "z"
	if got := put(); got.Placed || !got.Paused {
		t.Fatalf("while paused: %+v", got)
	}
	must(t, s.Resume(t.Context(), id))
	if got := put(); !got.Placed {
		t.Fatalf("after the pause: %+v", got)
	}
}

func testSurveyNeedsNoLoadedScript(t *testing.T, o Options) {
	s := open(t, o)
	queries := []Query{{ID: identity("g")}, {ID: identity("h")}, {ID: identity("i")}}
	if _, err := s.LookAll(t.Context(), queries); err != nil {
		t.Fatal(err)
	}
	stock(t, s, queries[1].ID, 2, 0, time.Minute)
	stocks, err := s.LookAll(t.Context(), queries)
	if err != nil || len(stocks) != 3 || stocks[0].Fresh != 0 || stocks[1].Fresh != 2 {
		t.Fatalf("%+v, %v", stocks, err)
	}
}

// If Redis lacks a script, calls are retried with the script's text. If such a retry fails, the
// call returns the retry's error.
func testMissingScriptKeepsErrors(t *testing.T, o Options) {
	s, ctx := open(t, o), t.Context()
	queries := []Query{{ID: identity("foreign")}, {ID: identity("stocked")}}
	stock(t, s, queries[1].ID, 2, 0, time.Minute)
	s.db.Slow.Set(ctx, s.keys(queries[0].ID).tokens, "foreign", 0)
	must(t, s.db.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() }))
	stocks, err := s.LookAll(ctx, queries)
	if err != nil || !errors.Is(stocks[0].Err, redisdb.ErrDown) || stocks[1].Err != nil || stocks[1].Fresh != 2 {
		t.Errorf("%+v, %v", stocks, err)
	}
}
