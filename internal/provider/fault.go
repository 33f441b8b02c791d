package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
)

// FaultKind is the kind of a Fault.
type FaultKind string

// The kinds of faults.
const (
	FaultAccount FaultKind = "account" // the service reports a wrong key, no money, or a ban
	FaultOutage  FaultKind = "outage"  // calls get no proper answer
)

// Fault describes why a provider is down. Replicas share their faults.
type Fault struct {
	Kind   FaultKind
	Code   string // the service's error code, or a code of this package
	Reason string // a sentence
	Action string // the action of the failed call
	Since  time.Time
	Next   time.Time     // time of the next probe
	Every  time.Duration // interval between two probes
	Polls  bool          // for an account fault: the service still answers polls
}

// pollSoon is the time from the start of an account fault to the first poll. This poll shows
// whether the service still answers polls.
const pollSoon = 5 * time.Second

// Fault returns why the provider is down, or nil if it is up.
func (c *Client) Fault() *Fault {
	h := &c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	switch p := &h.account; {
	case p.on:
		return &Fault{
			Kind: FaultAccount, Code: p.fault.Code, Reason: p.fault.reason(), Action: p.action,
			Since: p.since, Next: p.turn, Every: p.every, Polls: p.polls,
		}
	case h.outage.on:
		p = &h.outage
		return &Fault{
			Kind: FaultOutage, Code: h.last, Reason: noAnswer + h.last,
			Since: p.since, Next: p.turn, Every: p.every,
		}
	}
	return nil
}

// Answered returns when the client sent the latest call that got a proper answer, or the zero
// time.
func (c *Client) Answered() time.Time {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return c.health.answered
}

// Adopt replaces the fault of the client by the fault that replicas share; nil means that the
// provider is up. Adopt logs a change of the state.
func (c *Client) Adopt(ctx context.Context, f *Fault) {
	if change, changed := c.health.adopt(f); changed {
		c.announce(ctx, change)
	}
}

// PollTurn reports whether the caller may poll a task at the given time. During an account fault
// PollTurn permits one poll per minute, until the service answers a poll. If ok is false, the
// result wait is the time until the next permitted poll.
func (c *Client) PollTurn(at time.Time) (ok bool, wait time.Duration) {
	h := &c.health
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.account
	switch {
	case !p.on || p.polls:
		return true, 0
	case at.Before(p.pollTurn):
		return false, p.pollTurn.Sub(at)
	}
	p.pollTurn = at.Add(probe)
	return true, 0
}

// Probe allows the next submission even though the provider is down. With Config.Balance, Probe
// first requests the balance, and allows the submission only if this call succeeds. The error is
// an *Error or the error of ctx.
func (c *Client) Probe(ctx context.Context) error {
	if c.cfg.Balance {
		a, err := c.call(ctx, probing, c.speak.balance(), "")
		if err != nil {
			return err
		}
		c.health.setBalance(a.number)
	}
	c.health.probeNow(time.Now())
	return nil
}

// adopt implements Client.Adopt. It reports whether the provider went down or up.
func (h *health) adopt(f *Fault) (change, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case f == nil:
		h.account, h.outage, h.failures = pause{}, pause{}, 0
	case f.Kind == FaultAccount:
		p := &h.account
		if !p.on || p.fault.Code != f.Code {
			h.account = pause{on: true, pollTurn: time.Now().Add(pollSoon)}
		}
		reason, _ := strings.CutPrefix(f.Reason, f.Code+": ")
		p.fault = &Error{Class: Account, Code: f.Code}
		if reason != f.Reason {
			p.fault.Err = errors.New(reason)
		}
		p.action, p.began, p.since, p.turn, p.every, p.polls = f.Action, f.Since, f.Since, f.Next, f.Every, f.Polls
		h.outage = pause{}
	default:
		h.account = pause{}
		adopted := !h.outage.on || h.outage.adopted
		granted := h.outage.granted // kept, because the submission that uses this turn may not be sent yet
		h.outage = pause{on: true, adopted: adopted, began: f.Since, since: f.Since, turn: f.Next, every: f.Every, granted: granted}
		h.last = f.Code
	}
	return h.changeLocked()
}

// probeNow allows the next submission immediately.
func (h *health) probeNow(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range []*pause{&h.account, &h.outage} {
		if p.on {
			p.turn, p.granted = at, time.Time{}
		}
	}
}

// knownFaults explains the codes of account faults: what the provider does, and what the operator
// can do. NAME is a placeholder for the provider's name, and SITE for the provider's host.
var knownFaults = map[string]struct{ does, remedy string }{
	"ERROR_ZERO_BALANCE":       {emptyBalance, "top up the balance at SITE, then run `poold probe NAME`"},
	"ERROR_WRONG_USER_KEY":     {refusesKey, "check providers.NAME.key in the configuration file"},
	"ERROR_KEY_DOES_NOT_EXIST": {refusesKey, "check providers.NAME.key in the configuration file, and the account's plan at SITE"},
	"ERROR_IP_NOT_ALLOWED":     {refusesAddress, "allow the address of this machine in the account's settings at SITE"},
	"ERROR_IP_BLOCKED":         {refusesAddress, "ask the support of SITE to unblock the address of this machine"},
	"ERROR_ACCOUNT_SUSPENDED":  {"has suspended the account", "ask the support of SITE why the account is suspended"},
	"IP_BANNED":                {bansMachine, "wait until the ban ends, and check providers.NAME.key and the number of submits"},
	"ERROR_IP_BANNED":          {bansMachine, "wait until the ban ends, and check providers.NAME.key and the number of submits"},
	"ERROR: 1001":              {bansMachine, "wait until the ban ends, and lower providers.NAME.concurrency"},
	"ERROR: 1002":              {emptyBalance, "top up the balance at SITE, then run `poold probe NAME`"},
	"ERROR: 1003":              {bansMachine, "wait until the ban ends, and lower providers.NAME.concurrency"},
	"ERROR: 1004":              {refusesKey, "check providers.NAME.key in the configuration file"},
	"ERROR: 1005":              {bansMachine, "wait until the ban ends, and raise providers.NAME.poll_interval"},
}

// Each of the following faults has more than one code.
const (
	emptyBalance   = "reports an empty balance"
	refusesKey     = "refuses the key"
	refusesAddress = "refuses the address of this machine"
	bansMachine    = "has banned this machine for a while"
)

// remedy returns the advice for a code, or "" if there is none.
func (c *Client) remedy(code string) string {
	advice := knownFaults[code].remedy
	if advice == "" {
		return "" // the usual case: each worker reads the state at each look
	}
	site := strings.TrimPrefix(strings.TrimPrefix(c.base, "https://"), "http://")
	site, _, _ = strings.Cut(site, "/")
	return strings.NewReplacer("NAME", c.cfg.Name, "SITE", site).Replace(advice)
}

// unreachedCause returns in a few words why a call did not reach the service. The text does not
// quote the error, so that equal causes have equal texts.
func unreachedCause(err error) string {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var hostname x509.HostnameError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &dns):
		return "the host's name cannot be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "no route to host"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.As(err, &hostname):
		return "TLS: the certificate is for another host"
	case errors.As(err, &certificate):
		return "TLS: the certificate is not trusted"
	case errors.As(err, &record):
		return "TLS: the service does not speak it"
	case strings.Contains(err.Error(), "tls:"):
		return "TLS: the handshake failed"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no connection in time"
	}
	return "no connection"
}
