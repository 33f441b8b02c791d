package status

import (
	"cmp"
	"fmt"

	"poold/internal/pool"
)

// historyStatus converts the health of the history; nil if no history is kept. The argument guests
// is the stock of all guests; nil = unknown.
func (c *Collector) historyStatus(seen []observation, guests *pool.GuestStock) *History {
	if c.History == nil {
		return nil
	}
	health := c.History.Health()
	h := &History{
		OK: health.Down == "" && health.Unread == 0, Reason: cmp.Or(health.Down, health.Why),
		Sent: health.Sent, Dropped: health.Dropped, Unread: health.Unread,
	}
	for i := range seen {
		h.Unrecorded += seen[i].Figures.Unrecorded
	}
	if guests != nil {
		h.Unrecorded += guests.Figures.Unrecorded
	}
	return h
}

// auditStatus converts the health of the audit; nil if no audit is kept.
func (c *Collector) auditStatus() *Audit {
	if c.Audit == nil {
		return nil
	}
	health := c.Audit.Health()
	return &Audit{
		OK: health.Down == "", Reason: health.Down, Queued: health.Queued, Written: health.Written, Dropped: health.Dropped,
	}
}

// notices returns a notice if the history cannot be written or read; otherwise nil.
func (h *History) notices() []string {
	switch {
	case h == nil || h.OK:
		return nil
	case h.Unread > 0:
		return []string{fmt.Sprintf("The history lacks the orders of %d identities, which cannot be read from Redis: %s", h.Unread, h.Reason)}
	}
	return []string{"The history cannot be written: " + h.Reason + ". Redis keeps the ended orders meanwhile."}
}

// notices returns a notice if the audit cannot be written, and another notice if entries were dropped.
func (a *Audit) notices() (list []string) {
	if a == nil {
		return nil
	}
	if !a.OK {
		list = append(list, "The audit cannot be written: "+a.Reason+". Its entries wait in memory while there is room.")
	}
	if a.Dropped > 0 {
		list = append(list, fmt.Sprintf("The audit is incomplete: entries that this replica dropped since its start: %d.", a.Dropped))
	}
	return list
}
