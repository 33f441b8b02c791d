package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
)

// A Redis that answers and takes no writes: /readyz, /status and the 503 of a take
// say why.
func TestWhatIsWrongWithRedisIsNamed(t *testing.T) {
	addr := redistest.Server(t)
	store := runStore(t, pool.Options{Addresses: "redis://" + addr, Prefix: "test"})
	admin := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = admin.Close() })

	d := start(t, sampleSet(), nil, nil)
	d.stock.Store = store
	became := func(status int) answer {
		t.Helper()
		for range 1000 {
			if a := d.ask(t, "GET", "/readyz"); a.status == status {
				return a
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("/readyz did not become %d", status)
		return answer{}
	}
	became(200)
	if err := admin.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	reason := "redis takes no writes: too few of its replicas follow it (min-replicas-to-write) (" + addr + ")"
	if a := became(503); !strings.Contains(a.body, `"reasons":["`+reason+`"]`) {
		t.Errorf("readyz: %s", a.body)
	}
	a := d.ask(t, "GET", "/pool/checkout/token")
	checkProblem(t, "token", a, 503, kernel.CodeStoreDown, "checkout")
	if !strings.Contains(a.body, `"detail":"`+reason+`"`) {
		t.Errorf("token: %s", a.body)
	}
	if a := d.ask(t, "GET", "/status.json"); !strings.Contains(a.body, `"redis":{"mode":"single","ok":false,"reason":"`+reason+`"}`) ||
		!strings.Contains(a.body, `"ready":false`) || !strings.Contains(a.body, "no append-only file") {
		t.Errorf("status: %s", a.body)
	}
	if err := admin.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err(); err != nil {
		t.Fatal(err)
	}
	became(200)
}

// A part of a cluster is away: this replica stays ready and says why not for all;
// the figures of the other targets are right, and those of the ones in that part the
// last known.
func TestAPartOfRedisIsAway(t *testing.T) {
	set := sampleSet()
	d := start(t, set, nil, nil)
	here, away := &set.Targets[1], &set.Targets[0]
	for range 3 {
		for _, target := range []*targets.Target{here, away} {
			d.stock.land(t, d.stock.order(t, target), 0)
		}
	}
	d.status.Changed()
	before := d.ask(t, "GET", "/pool/checkout").body
	d.stock.away = redisdb.ErrDown
	d.stock.ill.Store(&redisdb.Health{Up: true, Reason: "a node is away"})
	if _, err := d.stock.Take(t.Context(), pool.Request{ID: here.ID}); err != nil {
		t.Fatal(err)
	}
	d.status.Changed()
	if a := d.ask(t, "GET", "/readyz"); a.status != 200 || strings.TrimSpace(a.body) != `{"ready":true,"reasons":["a node is away"]}` {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := d.ask(t, "GET", "/status.json"); !strings.Contains(a.body, `"redis":{"mode":"single","ok":true,"reason":"a node is away"}`) || !strings.Contains(a.body, `"ready":true`) {
		t.Errorf("status: %s", a.body)
	}
	dead, living := d.ask(t, "GET", "/pool/checkout").body, d.ask(t, "GET", "/pool/staging-login").body
	if !strings.Contains(before, `"fresh":3`) || !strings.Contains(dead, `"fresh":3`) || !strings.Contains(dead, `"bought":3`) ||
		!strings.Contains(dead, `"state":"starved","reason":"redis does not answer; the figures are the last known ones"`) {
		t.Errorf("the target that is away: %s\nbefore: %s", dead, before)
	}
	if !strings.Contains(living, `"fresh":2`) || !strings.Contains(living, `"state":"ok"`) {
		t.Errorf("a target that is there: %s", living)
	}
	if page := d.ask(t, "GET", "/status", "Accept: text/html").body; !strings.Contains(page, "A part of the store cannot be used: a node is away") {
		t.Errorf("page: %s", page)
	}
	if metrics := d.ask(t, "GET", "/metrics").body; strings.Contains(metrics, `poold_pool_tokens{target="checkout"}`) ||
		!strings.Contains(metrics, `poold_pool_tokens{target="staging-login"} 2`) {
		t.Error("the metrics tell of a target that nobody can look at, or not of one that can be")
	}
}
