package status

import (
	"context"
	"fmt"
	"time"

	"poold/internal/pool"
)

// historyStatus converts the health of the history; nil if no history is kept.
func (c *Collector) historyStatus(ctx context.Context) *History {
	if c.History == nil {
		return nil
	}
	health := c.History.Health()
	h := &History{
		OK: health.Down == "", Reason: health.Down, Sent: health.Sent, Dropped: health.Dropped, since: health.Since,
	}
	ctx, cancel := context.WithTimeout(ctx, sumLimit)
	defer cancel()
	if _, dropped, err := c.Stock.Outbox(ctx, pool.Ends); err == nil {
		c.unrecorded.Store(dropped)
	}
	h.Unrecorded = c.unrecorded.Load()
	return h
}

// auditStatus converts the health of the audit; nil if no audit is kept.
func (c *Collector) auditStatus() *Audit {
	if c.Audit == nil {
		return nil
	}
	health := c.Audit.Health()
	return &Audit{
		OK: health.Down == "", Reason: health.Down, Queued: health.Queued, Written: health.Written, Dropped: health.Dropped, since: health.Since,
	}
}

// notices returns a notice if the history cannot be written; otherwise nil.
func (h *History) notices(at time.Time) []string {
	if h == nil || h.OK {
		return nil
	}
	return []string{banner(h.since, at, "the history cannot be written ("+h.Reason+")", "Redis keeps the ended orders meanwhile, up to a limit", "repair the store of the history")}
}

// notices returns a notice if the audit cannot be written, and another notice if entries were dropped.
func (a *Audit) notices(at time.Time) (list []string) {
	if a == nil {
		return nil
	}
	if !a.OK {
		list = append(list, banner(a.since, at, "the audit cannot be written ("+a.Reason+")", "its entries wait in memory while there is room", "repair the store of the history"))
	}
	if a.Dropped > 0 {
		list = append(list, fmt.Sprintf("The audit is incomplete: entries that this replica dropped since its start: %d; the log has the causes", a.Dropped))
	}
	return list
}
