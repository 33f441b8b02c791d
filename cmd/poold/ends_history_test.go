package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// The history has the right record for each kind of end. The orders are solved, unsolvable, refused
// at the submit, timed out, lost, called back, or adopted from a dead replica.
func TestEachEndHasItsRecord(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	on := func(page string) func(simulatedtest.Call) bool {
		return func(c simulatedtest.Call) bool {
			return strings.HasPrefix(c.Identity.Pageurl, "https://example.com/"+page)
		}
	}
	o := quick()
	o.FailShare, o.PingShare = 0.3, 0.5
	o.Faults = []simulatedtest.Fault{
		{On: simulatedtest.Submit, When: on("refused"), Kind: simulatedtest.Code, Code: "ERROR_WRONG_GOOGLEKEY"},
		{On: simulatedtest.Submit, When: on("lost"), Kind: simulatedtest.Drop, Accepted: true},
		// For a task whose id ends in 1, every poll answers that the task is not ready.
		{On: simulatedtest.Poll, When: func(c simulatedtest.Call) bool { return strings.HasSuffix(c.Task, "1") }, Kind: simulatedtest.Code, Code: "CAPCHA_NOT_READY"},
	}
	service := httptest.NewServer(simulatedtest.New(o))
	t.Cleanup(service.Close)
	door := newCallbackDoor(t)
	w := newWorld(t, o, terms{
		depth: 1, service: service.URL, timeout: "5s", provider: `, callback_url: "` + door.url + `", fallback_after: 2s`,
		top: buying + "\ntypes: {turnstile: {lifetime: 5s, margin: 1s}}",
	})
	dying, living := w.start(t, crashAt("bought", 5)), w.start(t)
	door.setReplicas(living)
	var pages []string
	for i := range 60 {
		kind := []string{"page", "page", "page", "page", "page", "page", "page", "page", "refused", "lost"}[i/2%10] // at both replicas
		pages = append(pages, fmt.Sprintf("%s-%d", kind, i))
	}
	ask(t, []*process{dying, living}, len(pages), func(i int) string { return guest(pages[i], `,"timeout":"12s"`) }, noHeaders)
	living.order("POST", "/pool/login/pause", "", 204) // so that the target does not renew its tokens forever
	// An order that never becomes ready counts as lost when its token would have expired. A replica
	// detects this within a minute.
	testkit.Within(t, 3*time.Minute, "each order to have ended and to be in the history", func() bool {
		bought := 0
		for _, f := range living.day() {
			bought += f.Orders - f.Refused
		}
		return living.metrics()["poold_orders_in_flight"] == 0 && bought == living.balance()
	})

	books := ledger(t, w.provider)
	of := map[string]endedOrder{} // orders by task
	outcomes := map[string]int{}
	for _, status := range []string{"solved", "error"} {
		for _, r := range living.records(status) {
			outcomes[r.Outcome]++
			if _, twice := of[r.Task]; twice && r.Task != "" {
				t.Errorf("two records of task %s: %+v", r.Task, r)
			}
			of[r.Task] = r
			if r.Outcome == "refused" && (r.Code != "ERROR_WRONG_GOOGLEKEY" || r.Task != "") || r.Outcome == "lost" && (r.Code != "TIMEOUT" || r.Task != "") {
				t.Errorf("%+v", r)
			}
		}
	}
	unsold := 0 // orders without a known task; the service did not sell some of the lost orders
	for _, sale := range books.Sales {
		r, recorded := of[sale.Task]
		want, code := "solved", ""
		switch {
		case !recorded:
			unsold++
			continue
		case strings.HasSuffix(sale.Task, "1") && sale.Pinged == 0:
			want, code = "failed", "TIMEOUT"
		case sale.Failed:
			want, code = "failed", r.Code
		}
		if r.Outcome != want && (want != "solved" || r.Outcome != "discarded") || r.Code != code || r.Code == "" && sale.Failed {
			t.Errorf("task %s, which %+v, is recorded as %+v", sale.Task, sale, r)
		}
	}
	unknown := books.Totals.Refused - outcomes["refused"] // refused submits whose response was lost
	if outcomes["refused"] == 0 || outcomes["lost"] == 0 || outcomes["lost"] < unsold+unknown || unknown < 0 || outcomes["solved"] == 0 || outcomes["failed"] < 10 {
		t.Errorf("ends: %v; %d tasks have no record; the service: %+v", outcomes, unsold, books.Totals)
	}
	if m := living.metrics(); m["poold_callbacks_total"] < 10 {
		t.Errorf("%v callbacks came", m["poold_callbacks_total"])
	}
}
