package refill

import (
	"context"
	"slices"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/panics"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// keepRecovering calls adopt and settleDeparted periodically until ctx ends.
func (m *Manager) keepRecovering(ctx context.Context) {
	for {
		timer := time.NewTimer(adoptEvery + backoff.UpTo(adoptEvery/4))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			m.adopt(ctx, 0)
			m.settleDeparted(ctx, time.Now())
		}
	}
}

// adopt adopts the orders of dead replicas. The search ends after the timeout or when ctx ends. A
// timeout of 0 means no timeout.
func (m *Manager) adopt(ctx context.Context, timeout time.Duration) {
	_ = panics.Contain(m.log, "panic while looking for orders", func() {
		err := m.buyer.Adopt(ctx, timeout, func(id captcha.ID, r purchase.Result) {
			if w := m.workers.Load().byID[id]; w != nil {
				w.ended(r, m.Wake)
			} else {
				m.others(id, r)
			}
		})
		if err != nil {
			m.log.Debug("searching for orders of dead replicas failed", "err", err)
		}
	})
}

// settleDeparted takes a last look at each removed identity after all its tokens and orders have
// expired. The look completes the identity's figures and shortens the TTL of its keys.
func (m *Manager) settleDeparted(ctx context.Context, at time.Time) {
	m.mu.Lock()
	var due []departure
	workers := m.workers.Load()
	m.departed = slices.DeleteFunc(m.departed, func(d departure) bool {
		if workers.byID[d.id] != nil {
			return true // a reload added the identity again
		}
		if at.Before(d.due) {
			return false
		}
		due = append(due, d)
		return true
	})
	m.mu.Unlock()
	for _, d := range due {
		if err := m.stock.LastLook(ctx, d.id, d.margin); err != nil {
			m.mu.Lock()
			m.departed = append(m.departed, d)
			m.mu.Unlock()
		}
	}
}

// recordDeparted adds the removed identities to Manager.departed.
func (m *Manager) recordDeparted(went map[captcha.ID]*worker, next *workers, providers []targets.Provider) {
	longest := time.Duration(0)
	for _, p := range providers {
		longest = max(longest, p.Timeout)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range went {
		if next.byID[id] == nil {
			due := time.Now().Add(w.target.Lifetime + longest + settleMargin)
			m.departed = append(m.departed, departure{id: id, margin: w.target.Margin, due: due})
		}
	}
}
