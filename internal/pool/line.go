package pool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

const (
	// mostPlain and mostAskers bound what one script call has to do.
	mostPlain  = 128
	mostAskers = 500
	// pollEvery is how often waiting callers ask although nothing woke them; it
	// also keeps their tickets alive, which other replicas forget after 2 s.
	pollEvery = 500 * time.Millisecond
	// receiptLife is how long the answer of a take can be asked for again. Any
	// token in it that matters dies earlier.
	receiptLife = 10 * time.Minute
)

var (
	errNothing = errors.New("pool: nothing for this caller")
	errFull    = errors.New("pool: too many callers wait")
	errParked  = errors.New("pool: the caller holds a ticket")
)

// line is the queue of this replica's callers of one identity. Callers that
// arrive while a script call is under way go together in the next one, so that
// under load Redis does a fraction of the work and an idle daemon adds no
// delay. One call is under way at a time; that is what makes its receipt, which
// remembers the last call alone, enough.
type line struct {
	store *Store
	id    captcha.ID
	keys  keys
	bell  chan struct{} // wakes serve while it sleeps; capacity 1

	mu        sync.Mutex
	shared    map[string]*asker // those that wait with an Idempotency-Key, by their receipt
	fresh     []*asker          // not asked for yet
	parked    []*asker          // hold a ticket, in the order of their arrival
	round     []*asker          // those of parked that are still to be asked in this round
	began     time.Time         // when the last round began
	awake     bool              // something landed: begin a round as soon as this one is over
	leaving   []leaver          // tickets to be given up
	serving   bool              // a goroutine runs serve
	stuck     bool              // the last call has no answer yet; nobody else is let in
	refused   bool              // Redis refused the last call
	back      []unwanted        // tokens that Redis did not take back yet
	returning bool              // a goroutine runs returnAll

	look     sync.Mutex // guards the three below
	looked   Stock
	lookErr  error
	lookedAt time.Time
}

// join puts a caller into the line and makes sure that somebody serves it. It
// answers the caller's place: a new one, or that of the callers that wait with its
// key already.
func (l *line) join(a *asker) (*asker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck {
		return nil, ErrDown
	}
	shares := a.waits && a.once != ""
	if twin := l.shared[a.once]; shares && twin != nil {
		if twin.minTTL != a.minTTL {
			return nil, ErrConflict
		}
		twin.ears = append(twin.ears, a.ears...)
		return twin, nil
	}
	l.fresh = append(l.fresh, a)
	if err := l.serveLocked(); err != nil {
		return nil, err
	}
	if shares {
		l.shared[a.once] = a
	}
	return a, nil
}

// holder names this replica's part of a ticket that several can hold.
func (l *line) holder(a *asker) string {
	if a.ticket == "" || a.once == "" {
		return ""
	}
	return a.ticket + "|" + l.store.replica
}

// serveLocked rings for the goroutine that serves the line, or starts it.
func (l *line) serveLocked() error {
	if l.serving {
		l.ring()
		return nil
	}
	if !l.store.spawn(l.serve) {
		return ErrClosed
	}
	l.serving = true
	return nil
}

func (l *line) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// wake makes the parked callers ask now.
func (l *line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parked) > 0 {
		l.awake = true
		l.ring()
	}
}

// sendAway answers everybody who waits with ErrClosed.
func (l *line) sendAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.parked {
		a.parked = false
		l.finishLocked(a, answer{err: ErrClosed})
		if !a.asked {
			l.leaveLocked(a)
		}
	}
	l.parked = nil
	l.ring()
}

// abandon is called by a caller that stops listening: it hung up, or its wait
// is over (missed). Whatever is on its way to it goes back. It answers what kept
// the caller from a token: errNothing, or a *RateError.
func (l *line) abandon(ctx context.Context, a *asker, e ear, missed bool) error {
	l.mu.Lock()
	if a.done {
		l.mu.Unlock()
		// The answer came in the very moment.
		if got := <-e; got.err == nil {
			l.giveBack(ctx, got.token)
		}
		return errNothing
	}
	defer l.mu.Unlock()
	a.ears = slices.DeleteFunc(a.ears, func(other ear) bool { return other == e })
	if len(a.ears) == 0 {
		l.endLocked(a)
		a.timedOut = missed && a.held == nil
		// With a call under way, settle sees that it is done; without a ticket, next
		// skips it.
		if !a.asked && a.arrival != "" {
			l.unparkLocked(a)
			l.leaveLocked(a)
			_ = l.serveLocked() // a closed store has no tickets left to give up
		}
	}
	if a.held != nil {
		return a.held
	}
	return errNothing
}

func (l *line) leaveLocked(a *asker) {
	l.leaving = append(l.leaving, leaver{ticket: a.ticket, holder: l.holder(a), missed: a.timedOut})
}

func (l *line) unparkLocked(a *asker) {
	if a.parked {
		a.parked = false
		l.parked = slices.DeleteFunc(l.parked, func(other *asker) bool { return other == a })
	}
}

// serve makes script calls for as long as somebody is in the line.
func (l *line) serve() {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	for {
		b, rest, ok := l.next(time.Now())
		switch {
		case !ok:
			return
		case b != nil:
			l.call(b)
		default:
			sleep.Reset(rest)
			select {
			case <-l.bell:
			case <-sleep.C:
			case <-l.store.closing:
				l.sendAway()
			}
		}
	}
}

// next puts together who goes into the next call. Without anybody it tells how
// long to sleep until the waiting callers poll; ok is false where nobody is left.
func (l *line) next(at time.Time) (b *batch, rest time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.round) == 0 && len(l.parked) > 0 && (l.awake || at.Sub(l.began) >= pollEvery) {
		l.awake, l.began = false, at
		l.round = append(l.round, l.parked...)
	}
	b = &batch{leaving: l.leaving}
	l.leaving = nil
	l.round = b.admit(l.round)
	l.fresh = b.admit(l.fresh)
	switch {
	case len(b.plain)+len(b.askers)+len(b.leaving) > 0:
		return b, 0, true
	case len(l.parked) > 0:
		return nil, max(0, pollEvery-at.Sub(l.began)), true
	}
	l.serving = false
	return nil, 0, false
}

// call runs the script until it is known what it did. Where Redis refuses it, it is
// over. Where answers are lost for a second the callers are told so; the call itself
// is repeated under its number until Redis answers, and what it handed out then
// goes back into the stock.
func (l *line) call(b *batch) {
	keys, args := l.encode(b, l.store.calls.Add(1))
	began, lost := time.Now(), false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		limit := callTimeout
		if !b.failed {
			limit -= time.Since(began)
		}
		reply, err := l.store.takeOnce(limit, keys, args)
		if err == nil {
			l.settle(b, reply)
			return
		}
		if isOver(err, l.store.scripts.take, lost) {
			l.refuse(b, l.store.explain(context.Background(), err, keys))
			return
		}
		lost = true
		if wait >= 80*time.Millisecond || time.Since(began)+wait >= callTimeout {
			l.fail(b, err)
		}
		if time.Since(began) > receiptLife {
			l.settle(b, nil)
			return
		}
		select {
		case <-time.After(wait):
		case <-l.store.closing:
			l.settle(b, nil)
			return
		}
	}
}

// isOver reports whether an error is Redis' own answer to a take, so that it is
// known that nothing was handed out. An error that the script raised names it; it
// had looked for the receipt of an earlier try by then. Others were answered
// without running it, which says nothing of an earlier try whose answer was lost.
func isOver(err error, script *redis.Script, lost bool) bool {
	var answer redis.Error
	return errors.As(err, &answer) && (!lost || strings.Contains(answer.Error(), script.Hash()))
}

// refuse ends a call that Redis refused. Its tickets are forgotten like those of a
// replica that is gone.
func (l *line) refuse(b *batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck = false
	if !l.refused {
		l.refused = true
		l.store.log.Warn("redis refuses to hand out tokens", "err", err)
	}
	for _, a := range slices.Concat(b.plain, b.askers) {
		a.asked = false
		l.finishLocked(a, answer{err: down(err)})
		l.unparkLocked(a)
	}
}

// fail tells the callers of a call, and those behind it, that Redis is away.
func (l *line) fail(b *batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.failed {
		return
	}
	b.failed, l.stuck = true, true
	l.store.log.Warn("a take has no answer yet; its tokens will be put back", "err", err)
	down := answer{err: down(err)}
	for _, group := range [][]*asker{b.plain, b.askers, l.fresh, l.parked} {
		for _, a := range group {
			a.parked = false
			l.finishLocked(a, down)
			if a.arrival != "" && !a.asked {
				l.leaveLocked(a)
			}
		}
	}
	l.fresh, l.parked, l.round = nil, nil, nil
}

// settle gives the answers of a call to its callers; nil stands for a call whose
// outcome will never be known.
func (l *line) settle(b *batch, reply []string) {
	results, err := l.read(b, reply)
	if err != nil && reply != nil {
		l.store.log.Error("a take was answered with something unreadable", "err", err)
	}
	var orphans []Token
	l.mu.Lock()
	if l.refused {
		l.refused = false
		l.store.log.Info("redis lets tokens be handed out again")
	}
	l.stuck = false
	for i, a := range append(b.askers, b.plain...) {
		result := answer{err: down(err)}
		if err == nil {
			result = results[i]
		}
		a.asked, a.held = false, result.held
		switch {
		case errors.Is(result.err, errParked) && !a.done && !l.store.draining.Load():
			if !a.parked {
				a.parked = true
				l.parked = append(l.parked, a)
			}
			continue
		case errors.Is(result.err, errParked):
			l.finishLocked(a, answer{err: ErrClosed})
			l.leaveLocked(a)
		case a.done && result.err == nil:
			orphans = append(orphans, result.token)
		default:
			l.finishLocked(a, result)
		}
		l.unparkLocked(a)
	}
	l.mu.Unlock()
	// Apart, so that nobody in the line has to wait for it.
	if err := l.giveBackLater(orphans...); err != nil {
		l.store.log.Warn("tokens whose callers hung up could not be put back", "err", err)
	}
	l.store.changed(l.id)
}
