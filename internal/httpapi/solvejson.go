package httpapi

import (
	"poold/internal/captcha"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
)

// solved is the answer of POST /solve.
type solved struct {
	ID        string            `json:"id"`
	Target    string            `json:"target,omitempty"`
	Type      captcha.Type      `json:"type"`
	Token     string            `json:"token"`
	Solution  map[string]string `json:"solution,omitempty"`
	Source    pool.Source       `json:"source"`
	Provider  string            `json:"provider"`
	SolvedAt  string            `json:"solved_at"`
	ExpiresAt string            `json:"expires_at"`
	TTL       int64             `json:"ttl_ms"`
	UserAgent string            `json:"user_agent,omitempty"`
}

// solvedBy is the answer with a token; target is nil where none has its identity.
func solvedBy(d *delivery.Handout, target *kernel.Target) solved {
	token := d.Token
	a := solved{
		ID: d.ID, Type: d.Kind,
		Token: token.Value, Solution: captcha.Named(d.Kind, token.Value),
		Source: token.Source, Provider: token.Provider, SolvedAt: string(kernel.AppendTime(nil, token.Born)),
		ExpiresAt: string(kernel.AppendTime(nil, token.Dies)), TTL: token.TTL.Milliseconds(), UserAgent: token.UserAgent,
	}
	if target != nil {
		a.Target = target.Name
	}
	return a
}
