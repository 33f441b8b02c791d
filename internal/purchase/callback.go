package purchase

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"poold/internal/crash"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
	"poold/internal/redisdb"
	"poold/internal/spool"
)

// longestFallback is the longest default wait for a callback.
const longestFallback = 120 * time.Second

// The outcomes of a callback.
const (
	CallbackSettled   = "settled"   // the callback's token was added to the stock
	CallbackFailed    = "failed"    // the callback ended its order without a token
	CallbackUnknown   = "unknown"   // the order does not exist, because the callback is repeated or late
	CallbackForged    = "forged"    // invalid signature, provider or order id
	CallbackMalformed = "malformed" // unreadable, too large, or about a different task
	CallbackKept      = "kept"      // stored on disk as a dead letter, because Redis did not answer
	CallbackRefused   = "refused"   // neither Redis nor the disk stored the callback
)

// Callback is the HTTP request by which a provider reports the end of a task.
type Callback struct {
	Provider, Order, Secret string // parts of the path
	Query                   url.Values
	ContentType             string
	Body                    []byte
	Oversized               bool // Body is truncated
	At                      time.Time
}

// fallbackTime returns how long to wait for a callback before polling.
func (c Callbacks) fallbackTime(timeout, usable time.Duration) time.Duration {
	if c.Fallback > 0 {
		return c.Fallback
	}
	return min(longestFallback, timeout/2, usable/2)
}

// The type callbacks handles the callbacks of providers. It keeps a callback on disk if Redis does
// not store it. It is safe for concurrent use.
type callbacks struct {
	*base
	accounts  *accounts
	orders    *orders
	lifetimes *lifetimes
	secrets   signature.Secrets
	arrivals  arrivals
	kept      *spool.Spool
}

// handle implements Buyer.Callback.
func (cs *callbacks) handle(ctx context.Context, c Callback) error {
	outcome, err := cs.receive(ctx, c)
	cs.observe.Callback(outcome)
	if outcome == CallbackForged || outcome == CallbackMalformed {
		cs.log.Debug("a callback was ignored", "outcome", outcome)
	}
	return err
}

func (cs *callbacks) receive(ctx context.Context, c Callback) (outcome string, err error) {
	order, ok := pool.ParseRef(c.Order)
	if !ok || !cs.secrets.IsGenuine(c.Provider, c.Order, c.Secret) {
		return CallbackForged, nil
	}
	if c.Oversized {
		return CallbackMalformed, nil
	}
	answer, err := provider.ReadCallback(c.ContentType, c.Query, c.Body)
	if err != nil {
		return CallbackMalformed, nil //nolint:nilerr // the callback is counted, and the provider must not retry it
	}
	l := spool.Letter{
		Order: order.String(), Identity: order.Identity, Provider: c.Provider, Task: answer.Task,
		Token: answer.Solution.Token, UserAgent: answer.Solution.UserAgent, Arrived: c.At,
	}
	if answer.Err != nil {
		l.Code = "failed"
		if fault := (*provider.Error)(nil); errors.As(answer.Err, &fault) && fault.Code != "" {
			l.Code = fault.Code
			l.Refused = fault.Class == provider.Parameters
		}
	}
	crash.At("received")
	cs.orders.callbackArrived(order)
	outcome, err = cs.deliver(ctx, l, cs.arrivals.firstArrival(order, c.At))
	crash.At("delivered")
	if a := cs.accounts.byName(c.Provider); a != nil {
		cs.accounts.noteCallback(a, true)
	}
	if err == nil {
		cs.arrivals.forget(order)
		return outcome, nil
	}
	l.Until, l.Reason = c.At.Add(cs.lifetimes.get(order.Identity)), redisdb.Reason(err)
	if kept := cs.kept.Keep(l); kept != nil {
		cs.log.Error("a callback was refused with 503: neither redis nor the disk stored it", "provider", c.Provider, "task", l.Task,
			"err", errors.Join(err, kept))
		return CallbackRefused, ErrNotKept
	}
	crash.At("kept")
	cs.log.Debug("a callback was kept on disk", "provider", c.Provider, "order", order.Order, "task", l.Task, "err", err)
	return CallbackKept, nil
}

// deliver ends the order that a callback names. The argument arrived is the time of the order's
// first callback on this process' clock; zero = unknown. If Redis does not answer, deliver returns
// an error, and the caller may try again.
func (cs *callbacks) deliver(ctx context.Context, l spool.Letter, arrived time.Time) (outcome string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stockTime)
	defer cancel()
	ref, ok := pool.ParseRef(l.Order)
	if !ok {
		return CallbackMalformed, nil
	}
	r, there, err := cs.stock.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	if !there {
		return CallbackUnknown, nil
	}
	o, err := readOrder(r)
	if err != nil {
		cs.log.Error("a callback is for an order that this version cannot read", "provider", l.Provider, "err", err)
		return CallbackMalformed, nil
	}
	if l.Provider != o.provider {
		return CallbackForged, nil // poold did not issue this address
	}
	if l.Code == "" && !provider.IsAnswer(o.spec.Identity.Type, l.Token) {
		return CallbackMalformed, nil // the order stays in flight and is polled
	}
	if ok, err := cs.isAbout(ctx, r, l); err != nil || !ok {
		return CallbackMalformed, err
	}
	o.account = cs.accounts.accountOf(o.provider, o.accountID) // reports about the token go to this account
	o.task = cmp.Or(l.Task, o.task)
	n := noticeOf(l)
	// The task was solved after the submit, and at most o.delay before the callback arrived.
	n.took, n.age = max(0, arrived.Sub(o.submitted)), o.delay
	e := endOf(pool.Bought, n.trigger)
	how, err := cs.carryOut(ctx, o, e, n, "")
	if err != nil {
		return "", err
	}
	// If the release fails, a later search for orphaned permits releases this permit.
	_ = cs.stock.Release(ctx, o.provider, ref)
	switch how {
	case pool.Ended:
	case pool.Repeated:
		e, n = cs.endRepeated(o, n)
	default:
		return CallbackUnknown, nil
	}
	cs.reportEnd(o, e.outcome, n)
	cs.orders.endedByCallback(ref, n.message())
	if e.outcome == Solved {
		return CallbackSettled, nil
	}
	return CallbackFailed, nil
}

// noticeOf returns the notice that a dead letter contains.
func noticeOf(l spool.Letter) notice {
	if l.Code == "" {
		return notice{trigger: solved, callback: true, solution: provider.Solution{Token: l.Token, UserAgent: l.UserAgent}}
	}
	return calledBack(l.Code, l.Refused)
}

// isAbout reports whether the callback names the order's task, or a task that no other order has.
// Without this check, a service that confuses tasks could fill a stock with tokens for another
// target.
func (cs *callbacks) isAbout(ctx context.Context, r pool.Record, l spool.Letter) (bool, error) {
	if l.Task == "" || r.Task == l.Task {
		return true, nil
	}
	if r.Task != "" {
		return false, nil
	}
	return cs.stock.ClaimTask(ctx, l.Provider, l.Task, r.Ref, max(time.Second, time.Until(r.Until)))
}

// arrivals stores the arrival time of each order's first callback until that callback is
// delivered. A repeated callback therefore does not make a token appear younger. The type is safe
// for concurrent use.
type arrivals struct {
	mu sync.Mutex
	at map[pool.Ref]time.Time
}

// firstArrival records the arrival of a callback, and returns the arrival time of the order's first
// callback. It returns the zero time if an earlier process received the first callback, because the
// clock may have changed since.
func (a *arrivals) firstArrival(order pool.Ref, at time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first, known := a.at[order]; known {
		return first
	}
	if len(a.at) >= spool.MostLetters {
		clear(a.at) // this many arrivals mean an outage of hours, so most of their tokens have expired
	}
	a.at[order] = at
	return at
}

func (a *arrivals) forget(order pool.Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.at, order)
}
