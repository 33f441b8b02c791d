package purchase

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
)

const (
	// accountEvery is the shortest time between two probes of an account with a fault, and outageEvery between
	// two probes of a service without proper answers.
	accountEvery, outageEvery = time.Minute, 10 * time.Second
	// An outage begins after outageAfter calls in a row without a proper answer. If they span at least outageFor, two
	// calls are enough, because a service that answers 503 to all submits gets few calls. The calls must concern at least
	// two orders, because one task alone may have odd answers.
	outageAfter, outageFor = 5, 10 * time.Second
	// An account hangs if its service takes orders and solves none. This is so if no order brings a token for hangsAfter
	// times the usual lead time (at least leastLead), or for 3/4 of the timeout. The usual lead time is a median, because
	// orders that an outage delayed have long lead times.
	hangsAfter, leastLead = 4, 4 * time.Second
)

// streak counts calls in a row that had no proper answer.
type streak struct {
	failures int
	since    time.Time // the first failure
	order    string    // of the first failure
	several  bool      // they concern several orders
}

func (s *streak) add(order string) (outage bool) {
	if s.failures++; s.failures == 1 {
		s.since, s.order = time.Now(), order
	}
	s.several = s.several || s.order != order
	return s.several && (s.failures >= outageAfter || time.Since(s.since) >= outageFor)
}

// exchange is a finished submit or poll.
type exchange struct {
	poll  bool
	order string
	asked time.Time
	err   error
}

// note brakes an account, or lifts its brake, after a call with its key. Two results of submits are left to scripts in
// Redis. The script end counts submits that the service refused or had no capacity for, and the script bought lifts the
// brake after an accepted submit.
func (b *Buyer) note(ctx context.Context, a *account, c exchange) {
	as, ago := &b.accounts, time.Since(c.asked)
	var fault *provider.Error
	if errors.As(c.err, &fault) && fault.Class == provider.Account {
		as.mu.Lock()
		a.slowPolls = a.slowPolls || c.poll
		as.mu.Unlock()
		b.setBrake(ctx, a.key, pool.BrakeAccount, fault.Error(), max(accountEvery, fault.Delay), ago)
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
	a.inherited = a.inherited && failed
	first := failed && !c.poll && s.failures == 0
	outage := failed && s.add(c.order)
	if !failed {
		*s = streak{}
		a.slowPolls = a.slowPolls && !c.poll
	}
	as.mu.Unlock()
	if first {
		b.c.Log.Warn("a submit got no proper answer", "provider", a.Name(), "err", c.err)
	}
	switch {
	case outage && !c.poll && known.Kind == pool.BrakePolls: // a poll stays the probe
	case outage:
		every := max(outageEvery, fault.Delay)
		if _, interval := a.Pace(""); c.poll {
			every = max(every, 2*interval) // so that a poll in flight is the probe, not an order
		}
		b.setBrake(ctx, a.key, kind, "no proper answer: "+fault.Error(), every, ago)
	case failed || !c.poll:
	case known.Kind == pool.BrakePolls: // the answered poll ends an outage of polls
		// if Redis does not answer, the next successful poll lifts the brake
		_, _ = b.c.Pool.Lift(context.WithoutCancel(ctx), a.Name(), a.key, ago)
	}
}

// noteUnsolved checks whether an account hangs, after the service answered that a task is not solved yet, and brakes
// the account if so.
func (b *Buyer) noteUnsolved(ctx context.Context, a *account, o *order) {
	b.accounts.mu.Lock()
	waited := min(time.Since(o.submitted), time.Since(a.solved))
	late := min(hangsAfter*max(o.facts.Usual, leastLead), o.facts.Timeout*3/4)
	hangs := o.facts.Usual > 0 && waited > late && !isDown(a.brake)
	b.accounts.mu.Unlock()
	if hangs {
		b.setBrake(ctx, a.key, pool.BrakeHangs, "it takes orders and solves none: no token came in four times the usual time",
			accountEvery, waited)
	}
}

// noteSolved notes that an order brought a token, so the account does not hang any more.
func (b *Buyer) noteSolved(ctx context.Context, f *facts) {
	a, _ := b.accounts.of(f)
	if a == nil {
		return
	}
	b.accounts.mu.Lock()
	a.solved = time.Now()
	hung := a.brake.Kind == pool.BrakeHangs
	b.accounts.mu.Unlock()
	if hung {
		_, _ = b.c.Pool.Lift(ctx, a.Name(), a.key, 0) // without an answer, the next token tries again
	}
}

// isProper returns two facts about a finished call: whether it tells anything about the state of the service, and
// whether the service gave no proper answer. A lower-case code is from package provider and means no proper answer; the
// services' own codes are upper case.
func isProper(err error) (counts, failed bool) {
	var fault *provider.Error
	switch {
	case err == nil, errors.Is(err, provider.ErrNotReady):
		return true, false
	case !errors.As(err, &fault), fault.Code == "caller_gave_up": // no call, or the caller did not wait for its end
		return false, false
	}
	isOurs := fault.Code == strings.ToLower(fault.Code)
	return true, fault.Class == provider.Capacity && isOurs && fault.Code != "http_429"
}

// setBrake sets the brake of a key. If Redis does not answer, the next failed call sets it.
func (b *Buyer) setBrake(ctx context.Context, key, kind, reason string, every, ago time.Duration) {
	_, _ = b.c.Pool.SetBrake(context.WithoutCancel(ctx), key, kind, reason, every, ago)
}

// pollsSlowly reports whether the service refuses polls because of an account fault.
func (as *accounts) pollsSlowly(a *account) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	return a.slowPolls
}

// readBrakes reads the brakes of the accounts' keys. Each replica logs when a provider goes down or up, even if only
// other replicas called it.
func (b *Buyer) readBrakes(ctx context.Context) {
	as := &b.accounts
	listed := as.list()
	var keys []string
	for _, a := range listed {
		keys = append(keys, a.key)
	}
	brakes, err := b.c.Pool.Brakes(ctx, keys)
	if err != nil {
		return
	}
	var stuck []string
	all := !slices.ContainsFunc(brakes, func(other pool.Brake) bool { return !isDown(other) })
	none := !slices.ContainsFunc(brakes, func(other pool.Brake) bool { return !other.On() })
	for i, a := range listed {
		as.mu.Lock()
		before, now := a.brake, brakes[i]
		if a.inherited = a.inherited && !now.On(); a.inherited {
			now = before
		} else if isDown(before) && isDown(now) && before.Since.Before(now.Since) {
			now.Since = before.Since // the new key is wrong, too
		}
		if a.brake = now; !before.On() && now.On() {
			a.tried = time.Now()
		} else if now.On() && !now.Next.Equal(before.Next) && time.Until(now.Next) < now.Every/2 { // Buyer.Probe
			a.tried = time.Time{} // the next order goes there, also if another provider is up
		}
		if before.On() && !now.On() {
			a.slowPolls, a.solved = false, time.Now()
		}
		if isDown(before) != isDown(now) {
			a.refreshed = time.Time{} // the balance may have changed
		}
		as.mu.Unlock()
		b.announce(a, before, now, none)
		if isStuck(now) && !all { // else no order could replace those that are stuck
			stuck = append(stuck, a.Name())
		}
	}
	if b.c.Pool.SetStuck(stuck) && b.Turn != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, o := range b.running {
			if o.waits.Load() && slices.Contains(stuck, o.facts.Provider) {
				b.Turn(o.facts.ID)
			}
		}
	}
}

// isDown reports whether a brake means that the provider is down, and not only busy.
func isDown(brake pool.Brake) bool {
	return brake.On() && brake.Kind != string(pool.Busy) && brake.Kind != string(pool.Refused)
}

// isEmpty reports whether the fault of an account is its empty balance.
func isEmpty(brake pool.Brake) bool { return strings.Contains(brake.Reason, "BALANCE") }

// isStuck reports whether orders in flight bring no tokens, because the service solves nothing or refuses polls. With
// an empty balance, orders in flight still bring tokens.
func isStuck(brake pool.Brake) bool {
	return brake.On() && (brake.Kind == pool.BrakePolls || brake.Kind == pool.BrakeHangs ||
		brake.Kind == pool.BrakeAccount && !isEmpty(brake))
}

// announce logs that a provider went down or up, or that a provider that was down already now has an account fault. The
// argument none says whether no provider takes orders.
func (b *Buyer) announce(a *account, before, now pool.Brake, none bool) {
	is := isDown(now)
	if is == isDown(before) && (now.Kind != pool.BrakeAccount || now.Kind == before.Kind) {
		return
	}
	state, log := stateOf(a, now), b.c.Log.Warn
	if now.Kind == pool.BrakeAccount || none { // an operator must act
		log = b.c.Log.Error
	}
	if is {
		log("a provider is down", "provider", a.Name(), "reason", state.Notice(a.Name(), none),
			"from", now.Since.Truncate(time.Second), "retry_at", now.Next.UTC().Truncate(time.Second))
	} else {
		state.Since = before.Since
		b.c.Log.Info("a provider is up again", "provider", a.Name(), "took", time.Since(before.Since).Round(time.Second))
	}
	if b.c.ProviderChanged != nil {
		b.c.ProviderChanged(a.Name(), is, state, none)
	}
}
