package httpapi

import "net/http"

// handleHealth is GET /healthz: the process serves. It does not fall with
// Redis, because a restart would not bring Redis back.
func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request, _ *call) error {
	return respondJSON(w, map[string]string{"status": "ok"})
}

// handleReady is GET /readyz: 200 where this replica can hand out tokens, be it of
// some targets alone, else 503; with the reasons.
func (s *Server) handleReady(w http.ResponseWriter, _ *http.Request, _ *call) error {
	reasons := s.unready()
	if len(reasons) == 0 {
		ready := struct {
			Ready   bool     `json:"ready"`
			Reasons []string `json:"reasons,omitempty"` // why not of all targets
		}{Ready: true}
		if reason := s.stock.Health().Reason; reason != "" {
			ready.Reasons = []string{reason}
		}
		return respondJSON(w, ready)
	}
	p := reasons[0]
	p.Ready = new(bool)
	for _, reason := range reasons {
		p.Reasons = append(p.Reasons, reason.Detail)
	}
	return p
}
