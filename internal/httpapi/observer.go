package httpapi

import "poold/internal/purchase"

// The methods below are those of a purchase.Observer.

// Ended counts an order that ended.
func (m *Metrics) Ended(e purchase.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targetLocked(e.Target)
	t := m.providerLocked(e.Provider)
	m.solves.WithLabelValues(e.Target, e.Provider, string(e.Outcome)).Inc()
	if e.Outcome == purchase.Solved {
		t.tokens++
		m.solveDuration.WithLabelValues(e.Target, e.Provider).Observe(e.Solved.Sub(e.Submitted).Seconds())
	}
}

// Callback counts a callback by what became of it.
func (m *Metrics) Callback(outcome string) { m.callbacks.WithLabelValues(outcome).Inc() }

// DeadLetter counts a dead letter that is none any more.
func (m *Metrics) DeadLetter(outcome string) { m.letters.WithLabelValues(outcome).Inc() }

// Report counts a report by whether the provider got it.
func (m *Metrics) Report(provider, outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.providerLocked(provider)
	m.passedOn.WithLabelValues(provider, outcome).Inc()
}
