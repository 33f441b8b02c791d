package history_test

import (
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// A record contains the facts of the order and of its end. A lost order has the code TIMEOUT. What the service refused
// at the submit is refused; what it rejects later has failed. An order that cannot have cost anything has the price 0.
func TestRecordHasFactsAndEnd(t *testing.T) {
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "site", Pageurl: "https://example.com/"}
	placed := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	after := func(seconds time.Duration) time.Time { return placed.Add(seconds * time.Second) }
	for name, c := range map[string]struct {
		kind, task, code string
		price            int64
		how              history.How
		wantCode         string
		cost             int64
	}{
		"solved":                   {"solved", "t", "", 7, history.Solved, "", 7},
		"solved, price not known":  {"solved", "t", "", -1, history.Solved, "", history.PriceUnknown},
		"discarded":                {"expired", "t", "", 7, history.Discarded, "", 7},
		"sold before":              {"repeated", "t", "", 7, history.Failed, "repeated", 0},
		"lost":                     {"lost", "t", "CODE", 7, history.Lost, "CODE", 7},
		"lost without a code":      {"lost", "", "", 7, history.Lost, "TIMEOUT", 7},
		"failed":                   {"failed", "t", "CODE", 7, history.Failed, "CODE", 0},
		"failed without a code":    {"failed", "t", "", 7, history.Failed, "", 0},
		"failed, may be solved":    {"failed", "t", "TIMEOUT", 7, history.Failed, "TIMEOUT", 7},
		"refused":                  {"refused", "", "CODE", 7, history.Refused, "CODE", 0},
		"refused, price not known": {"refused", "", "CODE", -1, history.Refused, "CODE", 0},
		"no capacity":              {"busy", "", "CODE", 7, history.Refused, "CODE", 0},
		"account fault":            {"fault", "", "CODE", 7, history.Refused, "CODE", 0},
		"parameters refused":       {"hopeless", "", "CODE", 7, history.Refused, "CODE", 0},
		"parameters refused later": {"hopeless", "t", "CODE", 7, history.Failed, "CODE", 0},
	} {
		for _, id := range []captcha.ID{identity.ID(), pool.Guest(identity.ID())} {
			row := text(purchase.Purchase{
				Order: "order", ID: id, Identity: identity, Target: "login", Owner: "qa", Provider: "one", Choice: "best",
				Task: c.task, Code: c.code, Polls: 3, Callback: true, Price: c.price,
				Placed: placed, Submitted: after(1), Solved: after(2),
			})
			want := history.Record{
				ID: "order." + string(identity.ID()), Identity: identity.ID(), Target: "login", Owner: "qa",
				Type: captcha.Turnstile, Sitekey: "site", Pageurl: "https://example.com/", Provider: "one", Choice: "best",
				Task: c.task, How: c.how, Code: c.wantCode, Placed: placed, Submitted: after(1), Ended: after(4),
				Polls: 3, Callback: true, Price: c.cost,
			}
			if c.how == history.Solved || c.how == history.Discarded {
				want.Solved = after(2)
			}
			store := &memory{records: map[string]history.Record{}}
			late := lateReplica{rows: []pool.Row{{ID: "1-1", At: after(4), Kind: c.kind, Order: "order", JSON: row}}}
			late.send(t, store)
			if got := store.records[want.ID]; got != want {
				t.Errorf("%s: the record is\n%+v, want\n%+v", name, got, want)
			}
		}
	}
}

// Each kind of end is counted in the figure with the same name. Only orders with a token have a
// duration. Only orders that may have cost something have a price.
func TestFiguresOfARecord(t *testing.T) {
	placed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		how   history.How
		code  string
		price int64
		want  history.Figures
	}{
		"solved":             {history.Solved, "", 7, history.Figures{Solved: 1, ElapsedMS: 3000, Spent: 7}},
		"solved, no price":   {history.Solved, "", -1, history.Figures{Solved: 1, ElapsedMS: 3000, Unpriced: 1}},
		"solved for free":    {history.Solved, "", 0, history.Figures{Solved: 1, ElapsedMS: 3000}},
		"discarded":          {history.Discarded, "", 7, history.Figures{Discarded: 1, ElapsedMS: 3000, Spent: 7}},
		"failed":             {history.Failed, "CODE", 7, history.Figures{Failed: 1}},
		"failed by its time": {history.Failed, "TIMEOUT", 7, history.Figures{Failed: 1, Spent: 7}},
		"refused":            {history.Refused, "CODE", 7, history.Figures{Refused: 1}},
		"lost":               {history.Lost, "TIMEOUT", 7, history.Figures{Lost: 1, Spent: 7}},
	} {
		r := history.Record{How: c.how, Code: c.code, Price: c.price, Placed: placed, Submitted: placed.Add(time.Second), Ended: placed.Add(4 * time.Second)}
		if got := r.Figures(); got != c.want || got.Orders() != 1 {
			t.Errorf("%s: %+v, %d orders; want %+v, one order", name, got, got.Orders(), c.want)
		}
	}
	refused := history.Record{How: history.Refused, Placed: placed, Ended: placed.Add(time.Second)}
	if got := refused.Elapsed(); got != 0 {
		t.Errorf("an order without a submit took %v", got)
	}
}

// Each action is counted in the figure of this action, and only a bought token has a price.
func TestFiguresOfAnEntry(t *testing.T) {
	for name, c := range map[string]struct {
		action history.Action
		price  int64
		want   history.KeyFigures
	}{
		"taken":            {history.Taken, 7, history.KeyFigures{HandedOut: 1}},
		"bought":           {history.Bought, 7, history.KeyFigures{HandedOut: 1, Bought: 1, Spent: 7}},
		"bought, no price": {history.Bought, -1, history.KeyFigures{HandedOut: 1, Bought: 1, Unpriced: 1}},
		"accepted":         {history.Accepted, 0, history.KeyFigures{Accepted: 1}},
		"rejected":         {history.Rejected, 0, history.KeyFigures{Rejected: 1}},
	} {
		if got := (history.Entry{Action: c.action, Price: c.price}).Figures(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
