package status

import (
	"context"
	"errors"
	"math"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// Each reason why figures are not current ends with the text lastKnown.
const lastKnown = "; the figures are the last known ones"

// guests contains the sums of the stock of all guests, and the use of the guests' common budget.
type guests struct {
	stock     pool.GuestStock
	hour, day int // use of the guests' budget in the last 60 min and 24 h
}

// onDemand contains the queries about on-demand solves that were started for a snapshot.
type onDemand struct {
	section *targets.Solve // nil = the configuration file has no section `solve`
	guests  func() (guests, error)
	savings func() ([]dedup.SavingsDay, error)
}

// askOnDemand starts the queries about on-demand solves.
func (c *Collector) askOnDemand(ctx context.Context, set *targets.Set) onDemand {
	return onDemand{
		section: set.Solve,
		guests:  c.guests.startQuery(ctx, c.Log, c.askGuests),
		savings: c.savings.startQuery(ctx, c.Log, c.Savings.Days),
	}
}

// fill waits for the queries and writes the results into a document. The result is the stock of all
// guests. The result is nil if the document has no Solve, or if the stock is not current. After a
// reload that removes the section `solve`, the document contains Solve until the last tokens and
// orders of guests have ended.
func (o onDemand) fill(document *Document) (current *pool.GuestStock) {
	document.Dedup = dedupStatus(o.savings())
	found, err := o.guests()
	section := o.section
	switch {
	case section == nil && found.stock.Guests == 0:
		return nil
	case section == nil:
		section = &targets.Solve{}
	}
	document.Solve = solveStatus(section, found, err)
	if err != nil {
		return nil
	}
	return &found.stock
}

func (c *Collector) askGuests(ctx context.Context) (g guests, err error) {
	if g.hour, g.day, err = c.Stock.Spent(ctx, pool.ScopeSolve); err != nil {
		return g, err
	}
	g.stock, err = c.Stock.LookGuests(ctx)
	return g, err
}

// solveStatus converts the figures of the guests. A non-nil err is the reason why the figures are
// not current.
func solveStatus(section *targets.Solve, g guests, err error) *Solve {
	s, f := g.stock, &g.stock.Counters
	return &Solve{
		Owner: section.Owner, Reason: notNow(err),
		Guests: s.Guests, Fresh: s.Fresh, InFlight: s.Orders, BoughtInFlight: s.Bought, Waiting: s.Waiting,
		Counters: countersOf(f, s.Waiting), Refused: f.Declined, Replays: f.Replays, Spent: money(f.Spent),
		Budget: Budget{Hour: usage(g.hour, section.Budget.PerHour), Day: usage(g.day, section.Budget.PerDay)},
	}
}

// dedupStatus converts and sums the savings. A non-nil err is the reason why the savings are not
// current.
func dedupStatus(days []dedup.SavingsDay, err error) *Dedup {
	d := Dedup{Days: make([]DedupDay, len(days)), Reason: notNow(err)}
	for i, day := range days {
		by := BySource{
			Pool: day.BySource[dedup.SavedPool], Solve: day.BySource[dedup.SavedSolve],
			SharedWait: day.BySource[dedup.SavedWaiting], SharedCache: day.BySource[dedup.SavedAfter],
			Replay: day.BySource[dedup.SavedReplay],
		}
		served := by.Pool + by.Solve + by.SharedWait + by.SharedCache + by.Replay
		missed, refused := day.BySource[dedup.SavedMissed], day.BySource[dedup.SavedRefused]
		d.Days[i] = DedupDay{Date: day.Date, Requests: served + missed + refused, BySource: by, Missed: missed, Refused: refused}
		d.Requests += d.Days[i].Requests
		d.Missed += missed
		d.Refused += refused
		d.Shared += by.SharedWait + by.SharedCache
		d.Saved += by.SharedWait + by.SharedCache + by.Replay
	}
	if served := d.Served(); served > 0 {
		d.SavedPct = math.Round(1000*float64(d.Saved)/float64(served)) / 10
	}
	return &d
}

// notNow returns the reason why figures are not current; "" = the figures are current.
func notNow(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, redisdb.ErrDown):
		return redisdb.Reason(err) + lastKnown
	}
	return "they cannot be read now" + lastKnown
}
