package main

import (
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// After a replica was killed, the other replicas list all tokens that it handed out to a key, including the last one.
func TestEveryReplicaKnowsTheAuditOfAKilledOne(t *testing.T) {
	t.Parallel()
	const key = "audit-of-a-test-0123456789"
	w := newWorld(t, quick(), terms{depth: 3, provider: ", price_per_1000: 2.99", top: buying + `
server: {keys: [{name: qa.team@one, key: ` + key + `, scopes: [token, solve, status, admin]}]}`})
	first, second := startPoold(t, w.config, key), startPoold(t, w.config, key)
	var given []handout
	for range 3 {
		h, code, err := first.take(t.Context(), http.DefaultClient, "login", "?wait=20s")
		if err != nil || code != http.StatusOK {
			t.Fatal(code, err)
		}
		given = append(given, h)
	}
	solved, code, err := first.solve(t.Context(), http.DefaultClient, guest("audited"))
	if err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	first.order(http.MethodPost, "/pool/login/token/"+given[0].ID+"/report", `{"outcome":"accepted"}`, http.StatusNoContent)
	first.order(http.MethodPost, "/solve/"+solved.ID+"/report", `{"outcome":"rejected"}`, http.StatusNoContent)
	first.signal(syscall.SIGKILL)
	first.waitForDeath(5 * time.Second)
	order := func(id string) string { return strings.SplitN(id, ".", 2)[0] }
	want := map[string]int{
		"accepted login " + order(given[0].ID): 1, "bought /solve " + order(solved.ID): 1, "rejected /solve " + order(solved.ID): 1,
	}
	for _, h := range given {
		want["taken login "+order(h.ID)] = 1
	}
	var audit struct {
		Records []struct {
			Action, Target, Order string
			Price                 float64
		}
	}
	testkit.Within(t, 60*time.Second, "the rows of the killed replica", func() bool {
		getJSON(t, second.url+"/history/key/qa.team@one", key, &audit)
		return len(audit.Records) >= len(want)
	})
	got := map[string]int{}
	for _, r := range audit.Records {
		got[r.Action+" "+r.Target+" "+r.Order]++
		if handed := r.Action == "bought" || r.Action == "taken"; handed != (r.Price == 0.00299) {
			t.Errorf("%+v", r)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var usage struct {
		Lines []struct {
			Key                                   string
			HandedOut, Accepted, Rejected, Bought int
			Spent                                 float64
		}
	}
	getJSON(t, second.url+"/history/usage?by=key", key, &usage)
	if len(usage.Lines) != 1 || usage.Lines[0].Key != "qa.team@one" || usage.Lines[0].Bought != 1 || usage.Lines[0].Accepted != 1 || usage.Lines[0].Rejected != 1 || usage.Lines[0].Spent != 4*0.00299 {
		t.Errorf("usage: %+v", usage)
	}
	if h := second.historyStatus(); !h.OK || h.Unrecorded != 0 {
		t.Errorf("%+v", h)
	}
}
