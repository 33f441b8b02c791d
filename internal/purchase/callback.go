package purchase

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/spool"
)

const (
	// fallbackMost is the longest default wait for a callback.
	fallbackMost = 120 * time.Second
	// mostSecrets is how many former secrets of a provider are still known.
	mostSecrets = 32
	// uselessAfter is when a dead letter is of no use where nobody knows how long
	// its token lives.
	uselessAfter = 24 * time.Hour
)

// Callback is a provider's word on the end of a task, as it came in.
type Callback struct {
	Provider, Order, Secret string // of the path
	Query                   url.Values
	ContentType             string
	Body                    []byte
	Oversized               bool // Body was longer than what is read
	At                      time.Time
}

// DeriveSecret makes the secret that signs callbacks where the file names none.
func DeriveSecret(key captcha.Secret) captcha.Secret {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	_, _ = mac.Write([]byte("poold callbacks"))
	return captcha.Secret(hex.EncodeToString(mac.Sum(nil)))
}

// address is where the provider shall call when the order's task has ended; ""
// where it shall not. The secret stands in the path, because services append a
// query of their own.
func (c Callbacks) address(provider string, order pool.Ref) string {
	if c.URL == "" || len(c.Secrets) == 0 {
		return ""
	}
	return strings.Join([]string{c.URL, "callback", provider, order.String(), sign(c.Secrets[0], provider, order.String())}, "/")
}

// sign proves that this daemon made the address.
func sign(secret captcha.Secret, provider, order string) string {
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	_, _ = mac.Write([]byte(provider + "\x00" + order))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// fallback is how long to wait for a callback before polling.
func (c Callbacks) fallback(timeout, usable time.Duration) time.Duration {
	if c.Fallback > 0 {
		return c.Fallback
	}
	return min(fallbackMost, timeout/2, usable/2)
}

// rememberLocked keeps the secrets of a provider, the current ones last, also for
// callbacks of orders that were placed before a reload. The caller holds mu.
func (d *Buyer) rememberLocked(provider string, secrets []captcha.Secret) {
	former := slices.DeleteFunc(slices.Clone(d.secrets[provider]), func(known captcha.Secret) bool {
		return slices.Contains(secrets, known)
	})
	former = former[max(0, len(former)-mostSecrets):]
	d.secrets[provider] = append(former, secrets...)
}

// genuine reports whether the callback's address was made by this daemon, in
// constant time for each secret. The address may name a provider that had another
// name at the start of this process; its secret is the same then.
func (d *Buyer) genuine(c Callback) bool {
	d.mu.Lock()
	secrets, known := d.secrets[c.Provider]
	if !known {
		secrets = slices.Concat(slices.Collect(maps.Values(d.secrets))...)
	}
	d.mu.Unlock()
	found := false
	for _, secret := range secrets {
		if hmac.Equal([]byte(sign(secret, c.Provider, c.Order)), []byte(c.Secret)) {
			found = true
		}
	}
	return found
}

// Callback takes a provider's word on the end of a task. Whatever is wrong with
// it is counted and harmless; the one error is ErrNotKept: neither Redis nor the
// disk took it, and the provider should try again. It does not end with ctx.
func (d *Buyer) Callback(ctx context.Context, c Callback) error {
	outcome, err := d.receive(ctx, c)
	d.observe.Callback(outcome)
	if outcome == CallbackForged || outcome == CallbackMalformed {
		d.log.Debug("a callback was ignored", "outcome", outcome)
	}
	return err
}

func (d *Buyer) receive(ctx context.Context, c Callback) (outcome string, err error) {
	order, ok := pool.ParseRef(c.Order)
	if !ok || !d.genuine(c) {
		return CallbackForged, nil
	}
	if c.Oversized {
		return CallbackMalformed, nil
	}
	said, err := provider.ReadCallback(c.ContentType, c.Query, c.Body)
	if err != nil {
		return CallbackMalformed, nil //nolint:nilerr // it is counted; the provider shall not send it again
	}
	l := letter{
		Order: order.String(), Identity: order.Identity, Provider: c.Provider, Task: said.Task,
		Token: said.Solution.Token, UserAgent: said.Solution.UserAgent, Arrived: c.At,
	}
	if said.Err != nil {
		l.Code = "failed"
		if fault := (*provider.Error)(nil); errors.As(said.Err, &fault) && fault.Code != "" {
			l.Code = fault.Code
			l.Refused = fault.Class == provider.Parameters
		}
	}
	crash("received")
	outcome, err = d.deliver(ctx, l, d.firstArrival(order, c.At))
	crash("delivered")
	if a := d.accounts.named(c.Provider); a != nil {
		d.accounts.called(a, true)
	}
	if err == nil {
		d.forgetArrival(order)
		return outcome, nil
	}
	l.Until = c.At.Add(d.lives.get(order.Identity))
	if kept := d.letters.keep(l); kept != nil {
		d.log.Error("a callback was refused with 503: neither redis nor the disk took it", "provider", c.Provider, "task", l.Task,
			"err", errors.Join(err, kept))
		return CallbackRefused, ErrNotKept
	}
	crash("kept")
	d.log.Debug("a callback was kept on disk", "provider", c.Provider, "order", order.Order, "task", l.Task, "err", err)
	return CallbackKept, nil
}

// firstArrival is when the order's callback came first, of those that could not
// be delivered here: a repeat does not make the token younger. It is the zero time
// where a former run of the daemon got it: clocks can be set in between.
func (d *Buyer) firstArrival(order pool.Ref, at time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first, known := d.arrivals[order]; known {
		return first
	}
	if len(d.arrivals) >= spool.MostLetters {
		clear(d.arrivals) // an outage of hours; none of their tokens is alive
	}
	d.arrivals[order] = at
	return at
}

func (d *Buyer) forgetArrival(order pool.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.arrivals, order)
}

// deliver ends the order that a callback is about, which arrived first at the
// given moment, by this process' own clock; the zero time is unknown. Its error
// says that Redis did not answer; the same letter may be delivered again.
func (d *Buyer) deliver(ctx context.Context, l letter, arrived time.Time) (outcome string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	order, ok := pool.ParseRef(l.Order)
	if !ok {
		return CallbackMalformed, nil
	}
	r, there, err := d.stock.Find(ctx, order)
	if err != nil {
		return "", err
	}
	if !there {
		return CallbackUnknown, nil
	}
	f, err := readFacts(r.Facts)
	if err != nil {
		d.log.Error("a callback is for an order that this version cannot read", "provider", l.Provider, "err", err)
		return CallbackMalformed, nil
	}
	if l.Provider != f.Provider {
		return CallbackForged, nil // no address of ours says so
	}
	if ok, err := d.isAbout(ctx, r, l); err != nil || !ok {
		return CallbackMalformed, err
	}
	took := max(0, arrived.Sub(r.Placed.Add(r.Unsolved)))
	placedAt := f.Provider
	if a := d.accounts.askable(f.Provider, f.Account); a != nil {
		f.Provider = a.Name() // that takes reports on the token
	}
	how, err := d.finishBy(ctx, r, f, l, took)
	if err != nil {
		return "", err
	}
	// The place is given back late where Redis goes away now.
	_ = d.stock.Release(ctx, placedAt, order)
	fate, failed := l.fate(), l.Code != ""
	switch how {
	case pool.Ended:
	case pool.Repeated:
		d.log.Warn("a task brought no new token", "target", f.Target, "provider", f.Provider, "task", l.Task, "err", pool.RepeatedText)
		fate, failed = pool.RepeatedText, true
	default:
		return CallbackUnknown, nil
	}
	solve, outcome := Solved, CallbackSettled
	if failed {
		solve, outcome = Failed, CallbackFailed
	}
	d.observe.Solve(f.Target, f.Provider, solve, took)
	d.orders.told(order, fate)
	return outcome, nil
}

// fate is what replicas tell each other of the order's end.
func (l letter) fate() string {
	switch {
	case l.Code == "":
		return pool.Solved
	case l.Refused:
		return refused + l.Code
	}
	return l.Code
}

// isAbout reports whether the callback names the order's task, or one that no
// other order has: a service that mixes tasks up must not fill a stock with
// another target's tokens.
func (d *Buyer) isAbout(ctx context.Context, r pool.Record, l letter) (bool, error) {
	if l.Task == "" || r.Task == l.Task {
		return true, nil
	}
	if r.Task != "" {
		return false, nil
	}
	return d.stock.Claim(ctx, l.Provider, l.Task, r.Ref, max(time.Second, time.Until(r.Until)))
}

// finishBy settles or fails the order with what the callback says. took is from
// its submit to the callback; 0 = unknown, and the token is as old as its submit.
func (d *Buyer) finishBy(ctx context.Context, r pool.Record, f facts, l letter, took time.Duration) (pool.Ending, error) {
	if l.Code != "" {
		return d.stock.Fail(ctx, pool.Failure{Ref: r.Ref, Bought: true, Callback: true, Tell: l.fate()})
	}
	return d.stock.Settle(ctx, pool.Landing{
		Ref: r.Ref, Provider: f.Provider, Task: l.Task, Value: l.Token, UserAgent: l.UserAgent, Callback: true,
		// It cannot have been solved before its submit, nor much before the callback.
		SincePlaced: r.Unsolved + max(0, took-milliseconds(f.Delay)),
		Lifetime:    milliseconds(f.Lifetime), Lead: took,
	})
}
