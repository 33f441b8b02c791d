package status

import "poold/internal/pool"

// historyStatus is how the history is written; nil where none is kept. guests are what
// all of them hold, nil where that is not known.
func (c *Collector) historyStatus(seen []observation, guests *pool.GuestStock) *History {
	if c.History == nil {
		return nil
	}
	health := c.History.Health()
	h := &History{OK: health.Down == "", Reason: health.Down, Sent: health.Sent, Dropped: health.Dropped}
	for i := range seen {
		h.Unrecorded += seen[i].Figures.Unrecorded
	}
	if guests != nil {
		h.Unrecorded += guests.Figures.Unrecorded
	}
	return h
}
