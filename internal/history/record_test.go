package history_test

import (
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
)

// A record contains the facts of the order and the data of its end. If the facts and the end name
// different providers, the record contains the provider that the end names, because an order may
// move to another provider. A lost order has the code TIMEOUT. An order that cannot have cost
// anything has the price 0.
func TestRecordHasFactsAndEnd(t *testing.T) {
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "site", Pageurl: "https://example.com/"}
	placed := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	end := pool.EndedOrder{
		Ref: pool.Ref{Identity: identity.ID(), Order: "order"}, How: pool.EndSolved, Code: "CODE", Provider: "second", Task: "task",
		Polls: 3, Callback: true, Price: 7, Facts: pool.Facts{Target: "login", Owner: "qa", Provider: "first", Choice: "best", Identity: identity},
		Placed: placed, Submitted: placed.Add(1 * time.Second), Solved: placed.Add(2 * time.Second), Ended: placed.Add(4 * time.Second),
	}
	record := history.Record{
		ID: "order." + string(identity.ID()), Identity: identity.ID(), Target: "login", Owner: "qa",
		Type: captcha.Turnstile, Sitekey: "site", Pageurl: "https://example.com/",
		Provider: "second", Choice: "best", Task: "task", How: history.Solved, Code: "CODE",
		Placed: placed, Submitted: placed.Add(1 * time.Second), Solved: placed.Add(2 * time.Second), Ended: placed.Add(4 * time.Second),
		Polls: 3, Callback: true, Price: 7,
	}
	for name, c := range map[string]struct {
		end  func(*pool.EndedOrder)
		want func(*history.Record)
	}{
		"solved":                   {func(*pool.EndedOrder) {}, func(*history.Record) {}},
		"no other provider":        {func(o *pool.EndedOrder) { o.Provider = "" }, func(r *history.Record) { r.Provider = "first" }},
		"no choice":                {func(o *pool.EndedOrder) { o.Facts.Choice = "" }, func(r *history.Record) { r.Choice = "" }},
		"discarded":                {func(o *pool.EndedOrder) { o.How = pool.EndDiscarded }, func(r *history.Record) { r.How = history.Discarded }},
		"lost":                     {func(o *pool.EndedOrder) { o.How = pool.EndLost }, func(r *history.Record) { r.How = history.Lost }},
		"lost without a code":      {func(o *pool.EndedOrder) { o.How, o.Code = pool.EndLost, "" }, func(r *history.Record) { r.How, r.Code = history.Lost, "TIMEOUT" }},
		"refused":                  {func(o *pool.EndedOrder) { o.How = pool.EndRefused }, func(r *history.Record) { r.How, r.Price = history.Refused, 0 }},
		"failed":                   {func(o *pool.EndedOrder) { o.How = pool.EndFailed }, func(r *history.Record) { r.How, r.Price = history.Failed, 0 }},
		"failed without a code":    {func(o *pool.EndedOrder) { o.How, o.Code = pool.EndFailed, "" }, func(r *history.Record) { r.How, r.Code, r.Price = history.Failed, "", 0 }},
		"failed, may be solved":    {func(o *pool.EndedOrder) { o.How, o.Code = pool.EndFailed, "TIMEOUT" }, func(r *history.Record) { r.How, r.Code = history.Failed, "TIMEOUT" }},
		"refused, price not known": {func(o *pool.EndedOrder) { o.How, o.Price = pool.EndRefused, -1 }, func(r *history.Record) { r.How, r.Price = history.Refused, 0 }},
		"solved, price not known":  {func(o *pool.EndedOrder) { o.Price = -1 }, func(r *history.Record) { r.Price = history.PriceUnknown }},
	} {
		t.Run(name, func(t *testing.T) {
			o, want := end, record
			c.end(&o)
			c.want(&want)
			store := &memory{records: map[string]history.Record{}}
			(&lateReplica{lines: []pool.EndedOrder{o}}).send(t, store)
			if got := store.records[want.ID]; got != want {
				t.Errorf("the record is\n%+v, want\n%+v", got, want)
			}
		})
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
