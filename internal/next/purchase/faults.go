package purchase

import (
	"context"
	"errors"
	"strings"
	"time"

	"poold/internal/next/pool"
	"poold/internal/provider"
)

const (
	// accountEvery is the shortest time between two probes of an account with a fault; outageEvery is that
	// without proper answers.
	accountEvery = time.Minute
	outageEvery  = 10 * time.Second
	// outageAfter is the number of calls without a proper answer after which there is an outage. They
	// concern at least two orders: the odd answers of one task are that task's fault.
	outageAfter = 5
)

// streak counts calls in a row that had no proper answer.
type streak struct {
	failures int
	order    string // of the first failure
	several  bool   // they concern several orders
}

func (s *streak) add(order string) (outage bool) {
	if s.failures++; s.failures == 1 {
		s.order = order
	}
	s.several = s.several || s.order != order
	return s.failures >= outageAfter && s.several
}

// call is a finished submit or poll.
type call struct {
	poll  bool
	order string
	was   *provider.Fault // of the client before the call
	asked time.Time
	err   error
}

// note brakes an account, or lifts its brake, after a call with its key. A failed submit that is busy or
// refused is counted by the end of its order, and an accepted one proves the account when its task is
// stored.
func (b *Buyer) note(ctx context.Context, a *account, c call) {
	as, ago := &b.accounts, time.Since(c.asked)
	var fault *provider.Error
	if errors.As(c.err, &fault) && fault.Class == provider.Account {
		b.setBrake(ctx, a.key, pool.BrakeAccount, reasonOf(fault), max(accountEvery, fault.Delay), ago)
		return
	}
	counts, failed := isProper(c.err)
	if !counts {
		return
	}
	as.mu.Lock()
	s, kind, known := &a.submits, pool.BrakeOutage, a.brake
	if c.poll {
		s, kind = &a.polls, pool.BrakePolls
	}
	ended := s.failures >= outageAfter
	outage := failed && s.add(c.order)
	if !failed {
		*s = streak{}
	}
	as.mu.Unlock()
	switch {
	case outage && !c.poll && known.Kind == pool.BrakePolls: // the trial stays a poll
	case outage:
		every := outageEvery
		if _, interval := a.Pace(""); c.poll {
			every = max(every, 2*interval) // so that a poll in flight is the trial, not an order
		}
		b.setBrake(ctx, a.key, kind, "no proper answer: "+reasonOf(fault), every, ago)
	case failed || !c.poll:
	case known.Kind == pool.BrakePolls, ended, c.was != nil && c.was.Kind == provider.FaultAccount && a.Fault() == nil:
		// The answered poll ends an outage of polls, and an account fault that only polls had.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
		defer cancel()
		if _, err := b.pool.Lift(limited, a.Name(), a.key, ago); err != nil {
			b.log.Debug("the end of a provider's fault is not stored", "provider", a.Name(), "err", err)
		}
	}
}

// isProper reports whether a call says anything about the service, and whether it had no proper answer. The
// codes of package provider are lower case, those of the services are not.
func isProper(err error) (counts, failed bool) {
	var fault *provider.Error
	switch {
	case err == nil, errors.Is(err, provider.ErrNotReady):
		return true, false
	case !errors.As(err, &fault), fault.Code == "caller_gave_up", fault.Code == "outage": // no call was made, or heard out
		return false, false
	}
	isOurs := fault.Code == strings.ToLower(fault.Code)
	return true, fault.Class == provider.Capacity && isOurs && fault.Code != "http_429"
}

// reasonOf returns the code and the cause of a fault, without its class.
func reasonOf(fault *provider.Error) string {
	if fault.Err != nil {
		return fault.Code + ": " + fault.Err.Error()
	}
	return fault.Code
}

// setBrake sets the brake of a key. Without an answer of Redis the next failed call tries again.
func (b *Buyer) setBrake(ctx context.Context, key, kind, reason string, every, ago time.Duration) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	is, err := b.pool.Brake(limited, key, kind, reason, every, ago)
	if err != nil {
		b.log.Debug("a provider's fault is not stored", "key", key, "err", err)
	}
	if !is {
		return
	}
	b.accounts.mu.Lock()
	defer b.accounts.mu.Unlock()
	for _, a := range b.accounts.listed {
		if a.key == key { // until the next read
			a.tried = time.Now()
			a.brake = pool.Brake{Kind: kind, Reason: reason, Since: a.tried, Every: every, Next: a.tried.Add(every)}
		}
	}
}

// passBreaker lets the next submit pass the client's own breaker: the brake that all replicas share has
// already let the order pass.
func passBreaker(ctx context.Context, a *account) {
	if f := a.Fault(); f != nil {
		f.Next = time.Now()
		a.Adopt(ctx, f)
	}
}

// readBrakes reads the brakes of the accounts' keys, and with a Chooser the orders in flight. Clients take
// over account faults that other replicas met, so that each replica's log and status say what to do, and
// their ends.
func (b *Buyer) readBrakes(ctx context.Context) {
	as := &b.accounts
	listed := as.list()
	var keys, names []string
	for _, a := range listed {
		keys, names = append(keys, a.key), append(names, a.Name())
	}
	asked := time.Now()
	brakes, err := b.pool.Brakes(ctx, keys)
	if err != nil {
		return
	}
	var counts []int
	if b.chooser != nil {
		counts, _ = b.pool.InFlight(ctx, names) // without it, no offer is full
	}
	for i, a := range listed {
		as.mu.Lock()
		before, now := a.brake, brakes[i]
		if !a.tried.Before(asked) {
			as.mu.Unlock()
			continue // it was set meanwhile
		}
		if a.brake = now; !before.Brakes() && now.Brakes() {
			a.tried = time.Now()
		}
		if i < len(counts) {
			a.inFlight = counts[i]
		}
		as.mu.Unlock()
		switch own := a.Fault(); {
		case now.Kind == pool.BrakeAccount && before.Kind != now.Kind && own == nil:
			code, _, _ := strings.Cut(now.Reason, ": ")
			if strings.HasPrefix(now.Reason, "ERROR: ") {
				code = now.Reason[:min(len(now.Reason), len("ERROR: 1001"))]
			}
			a.Adopt(ctx, &provider.Fault{
				Kind: provider.FaultAccount, Code: code, Reason: now.Reason, Action: "submit", Since: now.Since, Next: now.Next,
				Every: now.Every, Polls: true,
			})
		case before.Brakes() && !now.Brakes() && own != nil:
			a.Adopt(ctx, nil)
		}
	}
}

// silentAfter is the number of expected callbacks in a row that did not arrive, after which tasks are polled
// from the start.
const silentAfter = 3

// silent reports whether an account's callbacks do not arrive.
func (as *accounts) silent(a *account) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.silent >= silentAfter
}

// turned notes whether a submit had no answer, and reports whether that is news.
func (as *accounts) turned(a *account, mute bool) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	was := a.mute
	a.mute = mute
	return was != mute
}

// noteCallback notes whether an expected callback arrived, and logs when they stop and when they start again.
func (b *Buyer) noteCallback(a *account, came bool) {
	as := &b.accounts
	as.mu.Lock()
	before := a.silent >= silentAfter
	if a.silent++; came {
		a.silent = 0
	}
	after := a.silent >= silentAfter
	as.mu.Unlock()
	switch {
	case after && !before:
		b.log.Warn("callbacks do not arrive, so tasks are polled: check that the service can reach callback_url, and that it is the base address",
			"provider", a.Name(), "tasks", silentAfter)
	case before && !after:
		b.log.Info("callbacks arrive again", "provider", a.Name())
	}
}
