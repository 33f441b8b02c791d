package httpapi

import (
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/solve"
)

// browserTabs tests the events, the spend by owner and its CSV file, a search without a match, and
// the subtotals.
func browserTabs(t *testing.T, visit func(*daemon, string) *visitor) {
	set := sampleSet()
	d := start(t, set, nil, nil)
	first := &set.Targets[0]
	_, err := d.stock.Look(t.Context(), pool.Query{ID: first.ID})
	noError(t, err)
	d.stock.landToken(t, d.stock.order(t, first), 0)
	for range 3 {
		call := pool.Call{ID: first.ID}
		solve.Identify(&call, "", "")
		_, _ = d.stock.Take(t.Context(), &call)
	}
	d.events.Note(events.Event{Kind: events.TargetPaused, Subject: "checkout", Target: "checkout", Actor: "key <b>all</b>", Text: "Buying for <i>checkout</i> was paused."})
	noError(t, d.history.Write(t.Context(), []history.Record{{ID: "one", Target: "checkout", Owner: "qa@example.com", How: history.Solved, Ended: time.Now()}}))
	v := visit(d, "")
	v.run(`document.querySelector('#targets .open').click(), [...document.querySelectorAll('.ranges button')].find((b) => b.textContent === '24 hours').click()`)
	v.waitFor("the last day", `document.querySelector('.plot').getAttribute('aria-label') === 'Requests in the last 24 hours: 1 hits, 2 waited or missed'`)
	v.run(`location.hash = '#events'`)
	v.waitFor("the event", `document.querySelector('#events tbody').textContent.includes('Buying for <i>checkout</i> was paused.key <b>all</b>')`)
	v.run(`location.hash = '#money'`)
	v.waitFor("the spend", `document.querySelector('#money tbody').textContent.includes('qa@example.com')`)
	v.run(`byID('spend-by').value = 'target', byID('spend-by').dispatchEvent(new Event('input'))`)
	v.waitFor("the spend by target", `document.querySelector('#money thead').textContent.startsWith('Target')`)
	v.run(`location.hash = ''`)
	v.waitFor("the list of targets", `!document.getElementById('panel-targets').hidden && document.getElementById('panel-money').hidden`)
	v.run(`search.value = 'no-such', search.dispatchEvent(new Event('input'))`)
	v.waitFor("no match", `document.getElementById('none').textContent === 'No target matches “no-such”.'`)
	v.run(`search.value = '', search.dispatchEvent(new Event('input')), grouped.click()`)
	v.waitFor("the subtotals", `document.querySelector('.group').textContent.startsWith('qa@example.com3 targets')`)
}
