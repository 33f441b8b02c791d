package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/testkit"
)

// punctual returns the options of a provider with a constant lead time and a ledger.
func punctual(lead time.Duration) simulated.Options {
	return simulated.Options{
		Median: lead, Min: lead, Max: lead, Seed: 22, Ledger: true, LedgerHTTP: true, Flavour: simulated.TwoCaptcha,
	}
}

// windows is the status of a target and of its windows.
type windows struct {
	targetStatus

	Warm   int
	Refill string
	Limit  string `json:"rail"`
}

func (p *process) windows() windows {
	p.t.Helper()
	var s windows
	getJSON(p.t, p.url+"/pool/login", p.key, &s)
	return s
}

// A POST to one of two replicas creates a window, which applies at both replicas. The tokens are
// ready soon, and there are never more tokens than the window wants. After the window, expired
// tokens are not replaced.
func TestWarmWindowByPost(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const depth, tokens = 1, 5
	w := newWorld(t, punctual(300*time.Millisecond), terms{depth: depth, target: ", lifetime: 16s, margin: 1s"})
	replicas := []*process{w.start(t), w.start(t)}
	w.atRest(t, replicas[0], 20*time.Second)

	began := time.Now()
	replicas[0].order(http.MethodPost, "/pool/login/warm", fmt.Sprintf(`{"tokens":%d,"for":"8s"}`, tokens), http.StatusNoContent)
	all := func(is func(s windows) bool) bool {
		yes := true
		for _, p := range replicas {
			s := p.windows()
			if s.Fresh > tokens || time.Since(began) < 8*time.Second && s.Fresh+s.InFlight > tokens {
				t.Errorf("%d in stock and %d on order for a window of %d", s.Fresh, s.InFlight, tokens)
			}
			yes = yes && is(s)
		}
		return yes
	}
	testkit.Within(t, 6*time.Second, "the tokens of the window", func() bool {
		return all(func(s windows) bool { return s.Fresh == tokens && s.Want == tokens && s.Warm == tokens })
	})
	t.Logf("%d tokens after %v", tokens, time.Since(began).Round(time.Millisecond))
	testkit.Within(t, 15*time.Second, "the window to be over", func() bool {
		return all(func(s windows) bool { return s.Want == depth && s.Warm == 0 })
	})
	if took := time.Since(began); took < 8*time.Second {
		t.Errorf("a window of 8 s was over after %v", took)
	}
	if s := replicas[0].windows(); s.Bought != tokens {
		t.Errorf("%d tokens were bought for a window of %d", s.Bought, tokens)
	}
	testkit.Within(t, 20*time.Second, "the tokens to die", func() bool {
		return all(func(s windows) bool { return s.Fresh == depth && s.InFlight == 0 && s.Expired == tokens })
	})
	if bought, books := replicas[1].balance(), ledger(t, w.provider); bought != tokens+depth || books.Totals.Submitted != bought {
		t.Errorf("poold counts %d bought and the provider sold %d, want %d", bought, books.Totals.Submitted, tokens+depth)
	}
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
	if m := p.metrics(); m[`poold_pool_warm{target="login"}`] != tokens || m[`poold_pool_waste_credit{target="login"}`] < 10 {
		t.Errorf("warm %v, credit %v: what a window costs is charged", m["poold_pool_warm"], m["poold_pool_waste_credit"])
	}
	p.balance()
}

// The tokens for a future window are ordered one lead time before the window begins, and not
// earlier.
func TestWarmWindowToCome(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const tokens = 4
	// Until lead times are known, a target expects a lead time of about 0.9 s, the sum of
	// first_poll and poll_interval. It plans with at most 1.86 times this sum, that is, with 1.7 s.
	// The actual lead time is 0.6 s, because of the first poll.
	w := newWorld(t, punctual(200*time.Millisecond), terms{
		depth: 8, pace: "first_poll: 600ms, poll_interval: 300ms", target: ", refill: adaptive",
	})
	p := w.start(t)
	at := time.Now().Add(4 * time.Second)
	p.order(http.MethodPost, "/pool/login/warm",
		fmt.Sprintf(`{"tokens":%d,"at":"%s","for":"1m"}`, tokens, at.Format(time.RFC3339Nano)), http.StatusNoContent)
	testkit.Within(t, 20*time.Second, "the first order", func() bool { return p.windows().InFlight > 0 })
	if early := time.Until(at); early > 2*time.Second {
		t.Errorf("ordered %v before the window begins", early)
	}
	testkit.Within(t, 20*time.Second, "the tokens", func() bool { return p.windows().Fresh >= tokens })
	if late := time.Since(at); late > time.Second {
		t.Errorf("complete %v after the window began", late)
	}
	t.Logf("complete %v before the window began", time.Until(at).Round(time.Millisecond))
	testkit.Within(t, 20*time.Second, "the window to begin", func() bool {
		s := p.windows()
		return time.Now().After(at) && s.Warm == tokens && s.Want == tokens
	})
	if s := p.windows(); s.Bought != tokens || s.Fresh != tokens {
		t.Errorf("%+v", s)
	}
	p.order(http.MethodPost, "/pool/login/warm", `{"tokens":0}`, http.StatusNoContent)
	testkit.Within(t, 20*time.Second, "the window to end", func() bool { s := p.windows(); return s.Warm == 0 && s.Want == 0 })
	p.balance()
}
