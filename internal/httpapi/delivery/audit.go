package delivery

import (
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/targets"
)

// Auditor keeps what keys do with tokens; *history.Auditor implements it. Note does not
// block.
type Auditor interface {
	Note(e history.Entry)
}

// Audit notes what keys do with tokens.
type Audit struct {
	To Auditor // nil = nothing is noted
}

// Taken notes that a caller has a token. A replay repeats a hand-out that was noted.
func (a Audit) Taken(c *kernel.Call, t *Handout) {
	if a.To == nil || t.Token.Source == pool.FromReplay {
		return
	}
	e := history.Entry{Action: history.Taken, Token: t.ID, Source: string(t.Token.Source), Image: t.Image}
	if t.Token.Source == ondemand.FromSolve {
		e.Action, e.Price = history.Bought, priceAt(c.Access.Set, t.Token.Provider, t.Kind)
	}
	a.note(c, e)
}

// reported notes a report that was counted, on the token that an answer gave this id.
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

// note adds what each entry has.
func (a Audit) note(c *kernel.Call, e history.Entry) {
	// The id distinguishes two hand-outs of one token to one caller, as after a hang-up.
	e.ID = rand.Text()
	e.At, e.Key, e.Target = time.Now().UTC().Truncate(time.Millisecond), c.Caller.AuditName(), c.TargetName()
	a.To.Note(e)
}

// priceAt is the price of a token at a provider of the file, in billionths of the
// currency, as an order has it; below 0 = unknown.
func priceAt(set *targets.Set, provider string, kind captcha.Type) int64 {
	for i := range set.Providers {
		if p := &set.Providers[i]; p.Name == provider {
			if !p.Price.Known(kind) {
				return pool.PriceUnknown
			}
			return int64(math.Round(p.Price.For(kind) * 1e9))
		}
	}
	return pool.PriceUnknown
}

// ImageOf identifies the picture of a solve; "" = the solve has none.
func ImageOf(asked *targets.SolveRequest) string {
	if asked.Image == nil {
		return ""
	}
	return fmt.Sprintf("sha256:%s, %d bytes", asked.Identity.Picture.SHA256, len(asked.Image))
}
