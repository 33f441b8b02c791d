package httpapi

import (
	"net/http"
	"sync/atomic"

	"poold/internal/httpapi/kernel"
	"poold/internal/redisdb"
)

type probes struct {
	health   func() redisdb.Health
	stopping *atomic.Bool // the flag Server.stopping
}

// alive is GET /healthz: 200 while the process serves requests. The route ignores Redis, because a
// restart of poold would not repair Redis.
func (p *probes) alive(w http.ResponseWriter, _ *http.Request, _ *kernel.Call) error {
	return kernel.RespondJSON(w, map[string]string{"status": "ok"})
}

// ready is GET /readyz: 200 if this replica can hand out tokens of at least some targets, else 503.
// The response lists the reasons.
func (p *probes) ready(w http.ResponseWriter, _ *http.Request, _ *kernel.Call) error {
	health := p.health()
	var reasons []*kernel.Problem
	if p.stopping.Load() {
		reasons = append(reasons, kernel.NewProblem(kernel.CodeShuttingDown, "the daemon is stopping"))
	}
	if !health.Ready() {
		reasons = append(reasons, kernel.NewProblem(kernel.CodeStoreDown, health.Reason))
	}
	if len(reasons) == 0 {
		ready := struct {
			Ready   bool     `json:"ready"`
			Reasons []string `json:"reasons,omitempty"` // reasons why some targets have no tokens
		}{Ready: true}
		if health.Reason != "" {
			ready.Reasons = []string{health.Reason}
		}
		return kernel.RespondJSON(w, ready)
	}
	answer := reasons[0]
	answer.Ready = new(bool)
	for _, reason := range reasons {
		answer.Reasons = append(answer.Reasons, reason.Detail)
	}
	return answer
}
