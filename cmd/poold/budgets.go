package main

import (
	"context"
	"errors"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

// countAgain counts the orders of the last day in the budgets again after Redis has lost its data, as far as the
// history has them.
func (d *daemon) countAgain(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.lost:
			if backend := d.file.Current().History.Backend; backend == targets.HistoryRedis || backend == targets.HistoryNone {
				continue // a history in Redis is lost, too
			}
			if err := d.countHistory(ctx, history.MostLimit); err != nil {
				d.log.Warn("the budgets lack the last day's orders: the history cannot be read", "err", err)
			} else {
				d.log.Info("the budgets count the last day's orders that the history has")
			}
		}
	}
}

func (d *daemon) countHistory(ctx context.Context, page int) error {
	set := d.file.Current()
	budgets := map[string][]pool.Budget{}
	if set.Solve != nil {
		budgets["/solve"] = refill.Budgets(set, pool.ScopeSolve, set.Solve.Budget, set.Solve.Owner)
	}
	for i := range set.Targets {
		budgets[set.Targets[i].Name] = refill.Spec(&set.Targets[i], set).Budgets
	}
	for _, status := range []history.Status{history.StatusSolved, history.StatusError} {
		q := history.Query{By: history.ByStatus, Value: string(status), From: time.Now().Add(-24 * time.Hour), Limit: page}
		for more := d.stores.sink != nil; more; {
			found, err := d.stores.sink.Find(ctx, q)
			list, malformed := history.Decode[history.Order](found)
			if err := errors.Join(err, malformed); err != nil {
				return err
			}
			for i := range list {
				q.Before = history.Position{At: list[i].EndedAt.Time, ID: list[i].ID}
				if !list[i].Costs() {
					continue
				}
				if err := d.pool.CountAgain(ctx, list[i].ID, list[i].PlacedAt.Time, int64(list[i].Price),
					budgets[list[i].Target]); err != nil {
					return err
				}
			}
			more = found.More
		}
	}
	return nil
}
