package main

import (
	"net/http"
	"testing"
)

// After a replica has stopped, the other replicas list all tokens that it handed out to a key,
// including the last token.
func TestEveryReplicaKnowsTheAuditOfAStoppedOne(t *testing.T) {
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
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	var audit struct {
		Entries []struct {
			Action, Target, Source string
			TokenID                string `json:"token_id"`
			Price                  float64
		}
	}
	getJSON(t, second.url+"/history/key/qa.team@one", key, &audit)
	got := map[string]int{}
	for _, e := range audit.Entries {
		got[e.Action+" "+e.Target+" "+e.TokenID]++
		if bought := e.Action == "bought"; bought != (e.Price == 0.00299) {
			t.Errorf("%+v", e)
		}
	}
	want := []string{"accepted login " + given[0].ID, "bought /solve " + solved.ID, "rejected /solve " + solved.ID}
	for _, h := range given {
		want = append(want, "taken login "+h.ID)
	}
	for _, entry := range want {
		if got[entry] != 1 {
			t.Errorf("%d entries: %s", got[entry], entry)
		}
	}
	if len(audit.Entries) != len(want) {
		t.Errorf("%d entries, want %d: %+v", len(audit.Entries), len(want), audit.Entries)
	}
	var usage struct {
		Lines []struct {
			Key                                   string
			HandedOut, Accepted, Rejected, Bought int
		}
	}
	getJSON(t, second.url+"/history/usage?by=key", key, &usage)
	if len(usage.Lines) != 1 || usage.Lines[0].Key != "qa.team@one" || usage.Lines[0].Bought != 1 || usage.Lines[0].Accepted != 1 || usage.Lines[0].Rejected != 1 {
		t.Errorf("usage: %+v", usage)
	}
	if m := second.metrics(); m["poold_audit_dropped_total"] != 0 {
		t.Errorf("%v entries were dropped", m["poold_audit_dropped_total"])
	}
}
