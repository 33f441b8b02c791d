package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/events"
	"poold/internal/postgres/postgrestest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// storyKey is the key of all callers of the story.
const storyKey = "key-of-the-story-0123456789"

// everyFault has three replicas and callers of each kind, which send requests during the whole
// test. The replicas share a solving service, a Redis server, and a PostgreSQL server for claims
// and history.
type everyFault struct {
	*testing.T

	w        *world
	service  *simulatedtest.Service
	server   *postgrestest.Cluster
	database string // address
	redis    *redis.Client
	replicas []*process
	callers  *storyCallers
	posted   sync.Map // kinds of events at the webhook
}

// The file has three targets, named "login", "refusable" and "small". For a while the service
// refuses the site key of the target "refusable". The budget of the target "small" is lower than
// its demand.
const (
	smallKey     = "1x00000000000000000000CC"
	smallBudget  = 12
	refusableKey = "1x00000000000000000000BB"
	storyTargets = `targets:
  small: {type: turnstile, sitekey: %s, pageurl: "https://example.com/", owner: small@example.com, depth: 2,
          budget: {per_day: %d}}
  refusable: {type: turnstile, sitekey: %s, pageurl: "https://example.com/", owner: qa@example.com, depth: 2}
`
)

func newEveryFault(t *testing.T) *everyFault {
	s := &everyFault{T: t, server: postgrestest.Start(t)}
	s.database = s.server.Database(t)
	o := quick()
	o.FailShare, o.CallbackShare, o.Balance = 0.1, 0.7, 4.5
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e events.Event
		_ = json.NewDecoder(r.Body).Decode(&e)
		s.posted.Store(e.Kind, true)
	}))
	t.Cleanup(hook.Close)
	door := newCallbackDoor(t)
	s.service = simulatedtest.New(o) // runs in this process, so that its faults can choose calls
	listening := httptest.NewServer(s.service)
	t.Cleanup(func() { s.service.Close(); listening.Close() })
	address := redistest.Server(t)
	s.redis = redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = s.redis.Close() })
	s.w = newWorld(t, o, terms{
		service: listening.URL, redis: "redis://" + address, depth: 5, timeout: "20s",
		provider: `, concurrency: 40, price_per_1000: 1000, callback_url: "` + door.url + `", fallback_after: 2s`,
		top: buying + fmt.Sprintf(`
dedup: {backend: postgres, url: %q}
history: {backend: postgres, url: %q}
notify: {url: %q}
server: {keys: [{name: story, key: %s, scopes: [token, solve, status, admin]}]}`,
			s.database, s.database, hook.URL, storyKey),
	})
	s.w.edit(t, "targets:\n", fmt.Sprintf(storyTargets, smallKey, smallBudget, refusableKey))
	s.w.initHistory(t, nil)
	for range 3 {
		s.replicas = append(s.replicas, startPoold(t, s.w.config, storyKey))
	}
	door.setReplicas(s.replicas...)
	s.callers = startStoryCallers(s)
	return s
}

// TestReplicasRecoverFromEachFault applies one fault after another to three replicas. During the whole test,
// callers take tokens, buy, share and repeat solves, and send pictures. After each fault all
// replicas recover, by themselves or after an operator's action. In the end the ledger of the
// service agrees with the figures of /metrics and /status, and with the records, days and usage of
// the history.
func TestReplicasRecoverFromEachFault(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	s := newEveryFault(t)
	s.waitForRecovery("the start")
	for _, fault := range []struct {
		name  string
		plays func(*everyFault)
	}{
		{"PostgreSQL freezes as solves end, and a key cannot be read", (*everyFault).freeze},
		{"a site key is refused", (*everyFault).refuseSitekey},
		{"the account is refused", (*everyFault).refuseAccount},
		{"a replica stops and returns", (*everyFault).stopReplica},
	} {
		began := time.Now()
		fault.plays(s)
		s.waitForRecovery(fault.name)
		t.Logf("%s: %v", fault.name, time.Since(began).Round(100*time.Millisecond))
		if t.Failed() {
			t.Fatalf("after: %s", fault.name)
		}
	}
	s.callers.end()
	s.checkLedger()
	s.checkEvents()
}

// checkEvents stops a replica. The others list the stop and the changes before it; all replicas noticed each
// change of the provider, and it is listed once.
func (s *everyFault) checkEvents() {
	testkit.NoError(s, s.replicas[2].Stop())
	all := s.replicas[0].tells(events.ReplicaStopped, events.ReplicaStarted, events.ProviderDown, events.ProviderProbed,
		events.BudgetUsedUp)
	for _, kind := range []events.Kind{events.BalanceLow, events.BudgetUsedUp, events.TargetRefused, events.ProviderUp} {
		testkit.Within(s, 20*time.Second, "the notification "+string(kind),
			func() bool { _, is := s.posted.Load(kind); return is })
	}
	states := slices.DeleteFunc(all,
		func(kind events.Kind) bool { return kind != events.ProviderDown && kind != events.ProviderUp })
	if len(states) < 2 || len(slices.Compact(slices.Clone(states))) != len(states) {
		s.Errorf("the states of the provider: %v", states)
	}
}

// waitForRecovery waits until each replica hands out a token and a shared solve.
func (s *everyFault) waitForRecovery(what string) {
	s.Helper()
	for i, p := range s.replicas {
		testkit.Within(s, 40*time.Second, what+fmt.Sprintf(": replica %d to hand out a token", i), func() bool {
			return s.callers.take(p, "login", "?wait=5s") == http.StatusOK
		})
		testkit.Within(s, 40*time.Second, what+fmt.Sprintf(": replica %d to share a solve", i), func() bool {
			_, code := s.callers.solve(p, guest("healed", sharing))
			return code == http.StatusOK
		})
	}
}

// wait waits for the duration d while the callers continue.
func (s *everyFault) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.Context().Done():
	}
}

// submits returns the number of submissions that the service has received so far, including refused
// ones.
func (s *everyFault) submits() int { return s.service.Totals().ByAction[simulatedtest.Submit] }

// freeze stops PostgreSQL while a shared solve ends. In Redis, the row of an ended order waits
// for the history.
func (s *everyFault) freeze() {
	waiting := func() int64 { return s.redis.XLen(s.Context(), "{world}:outbox:ends").Val() }
	var sharers sync.WaitGroup
	var mu sync.Mutex
	var frozen atomic.Bool
	tokens := map[string]map[string]bool{} // by the page
	for i := range 6 {
		sharers.Go(func() {
			for n := 0; !frozen.Load(); n++ { // a starved server may refuse some, and a solve may end before it is seen
				page := fmt.Sprint("frozen-", n)
				a, code := s.callers.solve(s.replicas[i%3], guest(page, sharing))
				if code != http.StatusOK {
					s.wait(100 * time.Millisecond)
				}
				mu.Lock()
				if code == http.StatusOK {
					if tokens[page] == nil {
						tokens[page] = map[string]bool{}
					}
					tokens[page][a.Token] = true
				}
				mu.Unlock()
			}
		})
	}
	testkit.Within(s, 10*time.Second, "the claim", func() bool {
		return s.server.SQL(s, s.database,
			"select count(*) from captcha_cache where pageurl like '%/frozen-%' and not (value->>'ended')::boolean") != "0"
	})
	s.server.Freeze()
	frozen.Store(true)
	testkit.Within(s, 20*time.Second, "the end to wait for the history", func() bool { return waiting() > 0 })
	s.wait(2 * time.Second) // the end of the solve also waits for PostgreSQL
	s.server.Thaw()
	sharers.Wait()
	for page, list := range tokens {
		testkit.AtMost(s, "tokens for callers that share the solve of "+page, len(list), 1)
	}
}

// refuseSitekey makes the service refuse one target's site key for some time.
func (s *everyFault) refuseSitekey() {
	s.service.SetFaults(simulatedtest.Fault{
		On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_WRONG_GOOGLEKEY",
		When: func(c simulatedtest.Attempt) bool { return c.Identity.Sitekey == refusableKey },
	})
	testkit.Within(s, 20*time.Second, "the target to be refused", func() bool {
		s.callers.take(s.replicas[0], "refusable", "?wait=0s") // so that the target wants tokens
		return s.replicas[1].target("refusable").State == "refused"
	})
	testkit.Within(s, 20*time.Second, "each replica to tell so", func() bool {
		for _, p := range s.replicas {
			if s.callers.take(p, "refusable", "?wait=0s") != http.StatusUnprocessableEntity {
				return false
			}
		}
		return true
	})
	s.service.SetFaults()
	// The probe may be one of the few orders that the service cannot solve.
	var resumed time.Time
	testkit.Within(s, 30*time.Second, "the target to be bought for", func() bool {
		if time.Since(resumed) > 5*time.Second {
			s.replicas[0].order(http.MethodPost, "/pool/refusable/resume", "", http.StatusNoContent)
			resumed = time.Now()
		}
		return s.replicas[1].target("refusable").State == "ok"
	})
}

// refuseAccount makes the service refuse submits while orders are in flight. poold still collects the
// tasks that the service solves.
func (s *everyFault) refuseAccount() {
	testkit.Within(s, 20*time.Second, "orders under way",
		func() bool { return s.replicas[0].target("login").InFlight > 1 })
	s.service.SetFaults(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "IP_BANNED"})
	for i, p := range s.replicas {
		testkit.Within(s, 15*time.Second, fmt.Sprintf("replica %d to know", i),
			func() bool { return p.providerState() == "down" })
	}
	before := s.submits()
	s.wait(4 * time.Second)
	testkit.AtMost(s, "submits at an account that is refused", s.submits()-before, 3)
	s.service.SetFaults()
	s.replicas[2].order(http.MethodPost, "/providers/service/probe", "", http.StatusOK)
	for i, p := range s.replicas {
		testkit.Within(s, 20*time.Second, fmt.Sprintf("replica %d to know of its end", i),
			func() bool { return p.providerState() != "down" })
	}
}

func (p *process) providerState() string {
	p.t.Helper()
	var document struct{ Providers []struct{ State string } }
	getJSON(p.t, p.URL+"/status.json", p.key, &document)
	return document.Providers[0].State
}

// stopReplica repeatedly stops one of the three replicas for a short time.
func (s *everyFault) stopReplica() {
	for range 2 {
		stopped, before := s.replicas[1], s.submits()
		stopped.Signal(syscall.SIGSTOP)
		// After 5 s, a replica would close the connections whose requests it could not read.
		s.wait(2500 * time.Millisecond)
		stopped.Signal(syscall.SIGCONT)
		testkit.Within(s, 20*time.Second, "orders", func() bool { return s.submits() > before })
	}
}
