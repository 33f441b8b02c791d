package httpapi

import (
	"net/http"
	"sync/atomic"

	"poold/internal/redisdb"
)

// Health returns how Redis serves, without asking it; see pool.Store.Health.
type Health interface {
	Health() redisdb.Health
}

// probes are the routes for balancers and supervisors.
type probes struct {
	stock    Health
	stopping *atomic.Bool // of the Server
}

// alive is GET /healthz: the process serves. It does not fall with Redis, because a
// restart would not bring Redis back.
func (p *probes) alive(w http.ResponseWriter, _ *http.Request, _ *call) error {
	return respondJSON(w, map[string]string{"status": "ok"})
}

// ready is GET /readyz: 200 where this replica can hand out tokens, be it of some
// targets alone, else 503; with the reasons.
func (p *probes) ready(w http.ResponseWriter, _ *http.Request, _ *call) error {
	health := p.stock.Health()
	var reasons []*Problem
	if p.stopping.Load() {
		reasons = append(reasons, problem(codeShuttingDown, "the daemon is stopping"))
	}
	if !health.Up {
		reasons = append(reasons, problem(codeStoreDown, health.Reason))
	}
	if len(reasons) == 0 {
		ready := struct {
			Ready   bool     `json:"ready"`
			Reasons []string `json:"reasons,omitempty"` // why not of all targets
		}{Ready: true}
		if health.Reason != "" {
			ready.Reasons = []string{health.Reason}
		}
		return respondJSON(w, ready)
	}
	answer := reasons[0]
	answer.Ready = new(bool)
	for _, reason := range reasons {
		answer.Reasons = append(answer.Reasons, reason.Detail)
	}
	return answer
}
