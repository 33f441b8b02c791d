package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// The outcomes of a report.
const (
	outcomeAccepted = "accepted"
	outcomeRejected = "rejected"
)

// handleReport is POST /pool/{target}/token/{id}/report: the caller tells how
// the token did. Only who took it may, once. It is passed on to the provider.
func (s *Server) handleReport(w http.ResponseWriter, r *http.Request, c *call) error {
	outcome, err := readOutcome(r, c.w.ResponseWriter)
	if err != nil {
		return err
	}
	accepted := outcome == outcomeAccepted
	// Who hangs up now has said it: what is counted is also passed on.
	ctx := context.WithoutCancel(r.Context())
	sale, err := s.stock.Report(ctx, c.target.ID, c.param(r, 1), c.caller.stable, accepted)
	if err != nil {
		return err
	}
	s.desk.Report(sale.Provider, sale.Task, c.target.Identity.Type, sale.Age, accepted)
	s.metrics.reported(c.target.Name, outcome, sale.Age)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readOutcome reads {"outcome":"accepted"} or rejected, and nothing else.
func readOutcome(r *http.Request, w http.ResponseWriter) (string, error) {
	body, err := readBody(r, w)
	if err != nil {
		return "", err
	}
	if err := checkJSON(r); err != nil {
		return "", err
	}
	// Token by token: a struct would take other spellings of the field, and the
	// last of two outcomes.
	malformed := fault(codeBadRequest, `the body must be {"outcome":"accepted"} or {"outcome":"rejected"}`)
	decoder := json.NewDecoder(bytes.NewReader(body))
	var read [4]json.Token
	for i := range read {
		if read[i], err = decoder.Token(); err != nil {
			return "", malformed
		}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", malformed
	}
	outcome, _ := read[2].(string)
	known := outcome == outcomeAccepted || outcome == outcomeRejected
	if read[0] != json.Delim('{') || read[1] != "outcome" || !known || read[3] != json.Delim('}') {
		return "", malformed
	}
	return outcome, nil
}
