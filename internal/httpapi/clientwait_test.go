package httpapi

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/testkit"
)

// tokenComes polls a task for 20 s while its order is in flight. After the 20 s the order lands,
// and the next poll returns the token.
func (d *daemon) tokenComes(t *testing.T, what, id string, ref *pool.Order) {
	t.Helper()
	poll := func() string { return d.handle(t, "GET", "/res.php?action=get&key="+keyAll+"&id="+id, "").body }
	for range 10 {
		equal(t, what+", while its order runs", poll(), "CAPCHA_NOT_READY")
		time.Sleep(2 * time.Second)
	}
	d.stock.landToken(t, ref, 0)
	synctest.Wait()
	equal(t, what+", after the landing", poll(), "OK|"+tokenValue+"-"+ref.Name)
}

// TestTaskWaitsWhileItsOrderRuns: a task does not fail while an order in flight can bring its
// token, even if poold can place no further order. A task that was given up for lack of polls
// continues if its client polls it again. Without an order in flight, the client gets the code for
// "no slot".
func TestTaskWaitsWhileItsOrderRuns(t *testing.T) {
	budget := refill.Status{State: refill.Budget, Until: day.Add(time.Hour)}
	for name, c := range map[string]struct {
		note  refill.Status
		down  bool // all providers are down
		pause time.Duration
	}{
		"the budget is used up":                  {note: budget},
		"no provider can be asked":               {down: true},
		"no provider can be asked, polled again": {down: true, pause: 40 * time.Second},
		"the target is paused":                   {note: refill.Status{State: refill.Paused, Reason: "paused by ops"}},
		"the parameters are refused":             {note: refill.Status{State: refill.Refused}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
				var down atomic.Bool
				d.buyer.providers = func(context.Context) []purchase.Status {
					status := d.provider
					if down.Load() {
						status.State = provider.State{Kind: provider.StateDown, Reason: "it is down", Until: day.Add(time.Hour)}
					}
					return []purchase.Status{status}
				}
				ref := d.stock.order(t, d.target("checkout"))
				id, ok := strings.CutPrefix(d.handle(t, "GET", legacySubmit(keyAll, "checkout"), "").body, "OK|")
				if !ok {
					t.Fatalf("the submit: %s", id)
				}
				time.Sleep(c.pause)
				down.Store(c.down)
				if c.note.State != "" {
					d.say(t, "checkout", c.note)
				}
				time.Sleep(2 * time.Second) // the state of the providers is cached for a second
				d.tokenComes(t, name, id, ref)
				if f := d.stock.readStock(t, d.target("checkout")).Counters; f.Waited != 1 || f.Missed != 0 {
					t.Errorf("%+v", f)
				}
				equal(t, "without an order", d.handle(t, "GET", legacySubmit(keyAll, "checkout"), "").body, "ERROR_NO_SLOT_AVAILABLE")
			})
		})
	}
}

// TestManyIDsCountEachTokenOnce: a poll of several tasks hands out each token once, in the metrics
// and in the audit.
func TestManyIDsCountEachTokenOnce(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 3)
	var ids []string
	for range 3 {
		id, _ := strings.CutPrefix(d.callLegacy(t, legacySubmit(keyAll, "checkout")), "OK|")
		ids = append(ids, id)
	}
	equal(t, "tokens", strings.Count(d.callLegacy(t, "/res.php?action=get&key="+keyAll+"&ids="+strings.Join(ids, ",")), tokenValue), 3)
	// The last token is counted after the response was sent.
	testkit.Within(t, 20*time.Second, "three tokens are counted", func() bool {
		return strings.Contains(d.ask(t, "GET", "/metrics", bearer(keyAll)).body, `poold_token_age_seconds_count 3`+"\n")
	})
	equal(t, "in the audit", len(d.audit.noted()), 3)
}
