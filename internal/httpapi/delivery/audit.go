package delivery

import (
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
)

// Auditor records the actions of keys on tokens; *history.Auditor implements it. Note does not
// block.
type Auditor interface {
	Note(e history.Entry)
}

// Audit writes the audit entries of the HTTP API.
type Audit struct {
	To Auditor // nil = no entries are written
}

// Taken writes an entry about a token that a caller has got. A replay gets no entry, because the
// first hand-out of the token has an entry.
func (a Audit) Taken(c *kernel.Call, t *Handout) {
	if a.To == nil || t.Token.Source == pool.FromReplay {
		return
	}
	e := history.Entry{Action: history.Taken, Token: t.ID, Source: string(t.Token.Source), Image: t.Image}
	if t.Token.Source == solve.FromSolve {
		e.Action, e.Price = history.Bought, priceAt(c.Access.Set, t.Token.Provider, t.Kind)
	}
	a.note(c, e)
}

// reported writes an entry about a counted report. The argument token is the id of the token in the
// response to the caller.
func (a Audit) reported(c *kernel.Call, token string, good bool) {
	if a.To == nil {
		return
	}
	e := history.Entry{Action: history.Rejected, Token: token}
	if good {
		e.Action = history.Accepted
	}
	a.note(c, e)
}

// note completes an entry with its id, time, key and target, and sends it.
func (a Audit) note(c *kernel.Call, e history.Entry) {
	// The id of an entry distinguishes two hand-outs of the same token to the same caller, for example
	// after a hang-up.
	e.ID = rand.Text()
	e.At, e.Key, e.Target = time.Now().UTC().Truncate(time.Millisecond), c.Caller.AuditName(), c.TargetName()
	a.To.Note(e)
}

// priceAt returns the price that the configuration file gives for a token of a provider, in
// billionths of the currency; -1 = the file has no such provider or price.
func priceAt(set *targets.Set, provider string, kind captcha.Type) int64 {
	for i := range set.Providers {
		if p := &set.Providers[i]; p.Name == provider {
			if !p.Price.Known(kind) {
				return -1
			}
			return int64(math.Round(p.Price.For(kind) * 1e9))
		}
	}
	return -1
}

// ImageOf returns a text that identifies the picture of a solve: its hash and size; "" = the solve
// has no picture.
func ImageOf(asked *targets.SolveRequest) string {
	if asked.Image == nil {
		return ""
	}
	return fmt.Sprintf("sha256:%s, %d bytes", asked.Identity.Picture.SHA256, len(asked.Image))
}
