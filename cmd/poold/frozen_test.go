package main

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// PostgreSQL freezes while a shared solve ends. All callers get the bought token, even callers at
// another replica and callers that come after the server responds again. In the savings, exactly
// one caller counts as the buyer.
func TestPostgresFreezesAsASolveEnds(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := server.Database(t)
	o := quick()
	o.Median, o.Sigma, o.Min, o.Max = 5*time.Second, 0, 5*time.Second, 5*time.Second
	w := newWorld(t, o, terms{timeout: "60s", top: buying + fmt.Sprintf("\ndedup: {backend: postgres, url: %q}", address)})
	holder, other := w.start(t), w.start(t)
	sources, tokens := map[string]int{}, map[string]int{}
	add := func(c *solvers) {
		t.Helper()
		if len(c.failed) > 0 {
			t.Fatalf("%d callers got nothing, the first one: %s", len(c.failed), c.failed[0])
		}
		for source, n := range c.sources {
			sources[source] += n
		}
		maps.Copy(tokens, c.tokens)
	}
	begun, waiting := make(chan *solvers, 1), make(chan *solvers, 1)
	go func() { begun <- ask(t, []*process{holder}, 5, same(guest("frozen", sharing)), noHeaders) }()
	claim := func(is string) func() bool {
		return func() bool { return server.SQL(t, address, "select count(*) from captcha_cache where "+is) == "1" }
	}
	testkit.Within(t, 20*time.Second, "the claim", claim("true"))
	go func() { waiting <- ask(t, []*process{other}, 3, same(guest("frozen", sharing)), noHeaders) }()
	testkit.Within(t, 20*time.Second, "the other replica to wait", claim("value->>'wanted' <> '0'"))
	server.Freeze()
	add(<-begun) // the server does not respond yet
	server.Thaw()
	add(<-waiting)
	add(ask(t, []*process{holder, other}, 4, same(guest("frozen", sharing)), noHeaders))
	if len(tokens) != 1 || sources["solve"] != 1 || sources["shared"] != 11 {
		t.Errorf("12 callers: %v, %d tokens", sources, len(tokens))
	}
	testkit.Within(t, 20*time.Second, "the savings to be counted", func() bool {
		var document struct {
			Dedup struct{ Requests, Missed, Refused, Saved int }
		}
		getJSON(t, holder.url+"/status.json", holder.key, &document)
		d := document.Dedup
		return d.Requests-d.Missed-d.Refused == 12 && d.Saved == 11 // callers repeat a request that fails because the store is down, so only served requests count
	})
}
