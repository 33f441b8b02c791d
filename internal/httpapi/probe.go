package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"poold/internal/httpapi/kernel"
	"poold/internal/purchase"
)

// Prober tries a provider at once; *purchase.Buyer implements it.
type Prober interface {
	// Probe returns how the provider does then, or purchase.ErrUnknownProvider.
	Probe(ctx context.Context, provider string) (purchase.Status, error)
}

// providers are the routes of an operator about one provider.
type providers struct {
	buyer  Prober
	status Changes
	log    *slog.Logger
}

// Probe is the answer of POST /providers/{provider}/probe.
type Probe struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // ok | busy | down
	Reason string `json:"reason"` // "" when ok
	Remedy string `json:"remedy"` // "" = nothing is known
}

// probe is POST /providers/{provider}/probe: an operator has seen to the account, and the
// provider is tried at once instead of at the next probe. It asks for the balance, where the
// provider is asked for one, and lets the next order through.
func (p *providers) probe(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	name := c.Param(r, 0)
	s, err := p.buyer.Probe(r.Context(), name)
	p.status.Changed()
	if errors.Is(err, purchase.ErrUnknownProvider) {
		return kernel.NewProblem(kernel.CodeUnknownProvider, "the configuration file lists no provider of this name")
	}
	if err != nil {
		return err
	}
	p.log.InfoContext(r.Context(), "a provider was probed", slog.String("provider", s.Name),
		slog.String("key", c.Caller.Name), slog.String("state", string(s.State.Kind)))
	return kernel.RespondJSON(w, Probe{Name: s.Name, State: string(s.State.Kind), Reason: s.State.Reason, Remedy: s.State.Remedy})
}
