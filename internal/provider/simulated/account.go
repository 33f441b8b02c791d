package simulated

import "time"

// account is what the callers of either protocol act upon.
type account struct {
	opts  *Options
	books *books
	pings *pinger
}

// submits makes a call one that submits an order; fail says a code in the protocol's way.
func (a *account) submits(q *query, o order, fail func(code string) answer) {
	q.Action, q.Identity = Submit, o.identity
	q.run = func(at time.Time) answer {
		t, code := a.books.sell(o, at)
		if code != "" {
			return fail(code)
		}
		a.pings.send(t, at)
		q.sold = t.number
		return q.accept(t.number)
	}
}
