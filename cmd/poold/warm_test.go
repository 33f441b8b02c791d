package main

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// punctual returns the options of a provider with a constant lead time and a ledger.
func punctual(lead time.Duration) simulatedtest.Options {
	return simulatedtest.Options{
		Median: lead, Min: lead, Max: lead, Seed: 22, LedgerHTTP: true, Flavour: simulatedtest.TwoCaptcha,
	}
}

// windows is the status of a target and of its windows.
type windows struct {
	targetStatus

	Warm   int
	Refill string
	Limit  string `json:"limited_by"`
}

func (p *process) windows() windows {
	p.t.Helper()
	var s windows
	getJSON(p.t, p.url+"/pool/login", p.key, &s)
	return s
}

// An adaptive target with an endless window in the file keeps and renews its tokens, even if no
// requests come.
func TestWarmWindowOfTheFile(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const tokens = 3
	w := newWorld(t, punctual(300*time.Millisecond), terms{
		depth:  8,
		target: fmt.Sprintf(`, lifetime: 5s, margin: 1s, refill: adaptive, warm: [{cron: "* * * * *", tokens: %d, for: 24h}]`, tokens),
	})
	p := w.start(t)
	full := func(expired int64) func() bool {
		return func() bool {
			s := p.windows()
			return s.Fresh >= tokens && s.Expired >= expired && s.Want == tokens && s.Warm == tokens
		}
	}
	testkit.Within(t, 20*time.Second, "the tokens", full(0))
	testkit.Within(t, 20*time.Second, "the tokens to be renewed, twice", full(2*tokens))
	s := p.windows()
	if s.Requests != 0 || s.State != "ok" || s.Refill != "adaptive" || s.Limit != "" {
		t.Errorf("%+v", s)
	}
	if m := p.metrics(); m[`poold_pool_waste_credit{target="login"}`] < 10 {
		t.Errorf("credit %v: what a window costs is charged", m["poold_pool_waste_credit"])
	}
	p.balance()
}
