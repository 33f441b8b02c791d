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

// The kinds.
const (
	FaultAccount FaultKind = "account" // the service reports a wrong key, no money, or a ban
	FaultOutage  FaultKind = "outage"  // calls get no proper answer
)

// Fault is the reason for which a provider is down. Replicas share it.
type Fault struct {
	Kind   FaultKind
	Code   string // the provider's own word, or one of this package
	Reason string // a sentence
	Action string // the call that failed
	Since  time.Time
	Next   time.Time     // of the next probe
	Every  time.Duration // between two probes
	Polls  bool          // of an account fault: polls are answered in spite of it
}

// pollSoon is the time from an account fault to the first poll, which shows whether polls are
// answered in spite of it.
const pollSoon = 5 * time.Second

// Fault returns why the provider is down; nil = it is up.
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

// Answered returns when the latest call that got a proper answer was sent; zero = none.
func (c *Client) Answered() time.Time {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return c.health.answered
}

// Adopt replaces the client's fault by the shared fault of all replicas; nil = the provider is
// up. It logs a change of state.
func (c *Client) Adopt(ctx context.Context, f *Fault) {
	if change, changed := c.health.adopt(f); changed {
		c.announce(ctx, change)
	}
}

// PollTurn reports whether a task may be polled at the given time. While an account fault
// lasts and no poll has been answered since it began, it permits one poll a minute; wait is the
// time until the next one.
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

// Probe asks for the balance at once, in spite of a fault. If it succeeds, the account can be used:
// the next submit may pass. The error is an *Error or ctx's. Without Config.Balance, Probe makes no
// call and returns nil.
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

// adopt implements Client.Adopt and reports whether the provider went down or up.
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
		p.action, p.since, p.turn, p.every, p.polls = f.Action, f.Since, f.Next, f.Every, f.Polls
		h.outage = pause{}
	default:
		h.account = pause{}
		adopted := !h.outage.on || h.outage.adopted
		granted := h.outage.granted // the granted submit may be about to leave
		h.outage = pause{on: true, adopted: adopted, since: f.Since, turn: f.Next, every: f.Every, granted: granted}
		h.last = f.Code
	}
	return h.changeLocked()
}

// probeNow allows the next submit.
func (h *health) probeNow(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range []*pause{&h.account, &h.outage} {
		if p.on {
			p.turn, p.granted = at, time.Time{}
		}
	}
}

// remedies are the advice to the operator about account faults. NAME stands for the provider's
// name, SITE for its host.
var remedies = map[string]string{
	"ERROR_ZERO_BALANCE":       "top up the balance at SITE, then run `poold probe NAME`",
	"ERROR_WRONG_USER_KEY":     "check providers.NAME.key in the configuration file",
	"ERROR_KEY_DOES_NOT_EXIST": "check providers.NAME.key in the configuration file, and the account's plan at SITE",
	"ERROR_IP_NOT_ALLOWED":     "allow the address of this machine in the account's settings at SITE",
	"ERROR_IP_BLOCKED":         "ask the support of SITE to unblock the address of this machine",
	"ERROR_ACCOUNT_SUSPENDED":  "ask the support of SITE why the account is suspended",
	"IP_BANNED":                "wait until the ban ends, and check providers.NAME.key and the number of submits",
	"ERROR_IP_BANNED":          "wait until the ban ends, and check providers.NAME.key and the number of submits",
	"ERROR: 1001":              "wait until the ban ends, and lower providers.NAME.concurrency",
	"ERROR: 1002":              "top up the balance at SITE, then run `poold probe NAME`",
	"ERROR: 1003":              "wait until the ban ends, and lower providers.NAME.concurrency",
	"ERROR: 1004":              "check providers.NAME.key in the configuration file",
	"ERROR: 1005":              "wait until the ban ends, and raise providers.NAME.poll_interval",
}

// remedy returns the advice for a code, "" if there is none.
func (c *Client) remedy(code string) string {
	site := strings.TrimPrefix(strings.TrimPrefix(c.base, "https://"), "http://")
	site, _, _ = strings.Cut(site, "/")
	return strings.NewReplacer("NAME", c.cfg.Name, "SITE", site).Replace(remedies[code])
}

// unreachedCause returns in a few words why a call did not reach the service. It does not quote
// the error, so that it is equal for equal causes.
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
