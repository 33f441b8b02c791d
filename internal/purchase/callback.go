package purchase

import (
	"context"
	"errors"
	"net/url"
	"time"

	"poold/internal/captcha"
	"poold/internal/crash"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
	"poold/internal/redisdb"
	"poold/internal/spool"
)

// ErrNotKept means that neither Redis nor the disk has stored a callback: the service should repeat it.
var ErrNotKept = errors.New("neither redis nor the disk stored the callback")

// The outcomes of a callback.
const (
	CallbackSettled   = "settled"   // its token is in the stock
	CallbackFailed    = "failed"    // it ended its order without a token
	CallbackUnknown   = "unknown"   // no such order: it is repeated or late
	CallbackForged    = "forged"    // poold did not issue the address
	CallbackMalformed = "malformed" // unreadable, too large, or about another task
	CallbackKept      = "kept"      // on the disk, because Redis did not answer
	CallbackRefused   = "refused"   // neither Redis nor the disk has it
)

// The outcomes of a dead letter.
const (
	DeadLetterReplayed = "replayed"
	DeadLetterDropped  = "dropped" // its order had ended
	DeadLetterExpired  = "expired" // its token had expired

	// longestFallback is the largest default of the setting fallback_after.
	longestFallback = 120 * time.Second
	// replayEvery is the time between two replays of the dead letters.
	replayEvery = 2 * time.Second
	// unknownLife is how long a dead letter is kept if its order did not run at this replica.
	unknownLife = 24 * time.Hour
)

// Callbacks configures the callbacks of a provider.
type Callbacks struct {
	URL     string           // public base address of this daemon; "" = no callbacks
	Secrets []captcha.Secret // the first one signs new addresses, all are accepted
	// Fallback is how long to wait for a callback before polling; 0 = the shortest of 120 s, half the
	// provider's timeout and half the token's usable life.
	Fallback time.Duration
	Delay    time.Duration // greatest age of a token when its callback arrives
}

func (c *Callbacks) on() bool { return c.URL != "" && len(c.Secrets) > 0 }

// address returns the callback address of an order. The signature is in the path, because services append a
// query.
func (c *Callbacks) address(provider, order string) string {
	if !c.on() {
		return ""
	}
	return c.URL + "/callback/" + provider + "/" + order + "/" + signature.Of(c.Secrets[0], provider, order)
}

// Callback is the request by which a service says that a task has ended.
type Callback struct {
	Provider, Order, Secret string // of the path
	Query                   url.Values
	Body                    []byte
	Oversized               bool // Body is cut
	At                      time.Time
}

// Callback handles a callback: it ends the order, or keeps the callback on the disk. An invalid callback is only
// counted. The only error is ErrNotKept. The end of ctx does not interrupt Callback.
func (b *Buyer) Callback(ctx context.Context, c Callback) error {
	outcome, err := b.receive(ctx, &c)
	b.c.Observer.Count("callback", c.Provider, outcome)
	return err
}

func (b *Buyer) receive(ctx context.Context, c *Callback) (outcome string, err error) {
	if c.Order == "" || len(c.Order) > 64 || !b.secrets.IsGenuine(c.Provider, c.Order, c.Secret) {
		return CallbackForged, nil
	}
	if c.Oversized {
		return CallbackMalformed, nil
	}
	answer, err := provider.ReadCallback(c.Query, c.Body)
	if err != nil {
		return CallbackMalformed, nil //nolint:nilerr // it is counted, and must not be repeated
	}
	l := spool.Letter{
		Order: c.Order, Provider: c.Provider, Arrived: c.At, Task: answer.Task, Token: answer.Solution.Token,
		Extra: answer.Solution.Extra, Expires: answer.Solution.Expires,
	}
	if answer.Err != nil {
		l.Code = "failed"
		if fault := (*provider.Error)(nil); errors.As(answer.Err, &fault) && fault.Code != "" {
			l.Code, l.BadParameters = fault.Code, fault.Class == provider.Parameters
		}
	}
	crash.At("received")
	arrived := b.firstArrival(c.Order, c.At)
	outcome, err = b.deliver(ctx, &l, arrived)
	if a := b.accounts.byName(c.Provider); a != nil {
		b.noteCallback(a, true)
	}
	if err == nil {
		b.arrivals.Delete(c.Order)
		return outcome, nil
	}
	life := unknownLife
	if o := b.own(c.Order); o != nil {
		l.Identity, life = o.journal.ID, o.facts.Lifetime
	}
	l.Until, l.Reason = c.At.Add(life), redisdb.Reason(err)
	if kept := b.kept.Keep(l); kept != nil {
		b.c.Log.Error("a callback was refused with 503: neither redis nor the disk stored it", "provider", c.Provider,
			"task", l.Task, "err", errors.Join(err, kept))
		return CallbackRefused, ErrNotKept
	}
	b.c.Log.Debug("a callback was kept on disk", "provider", c.Provider, "order", c.Order, "task", l.Task, "err", err)
	return CallbackKept, nil
}

// firstArrival notes when a callback arrived, and returns when the first callback of the same order arrived, so that a
// repetition makes no token younger. The result is zero if an earlier process received the first callback.
func (b *Buyer) firstArrival(order string, at time.Time) time.Time {
	first, _ := b.arrivals.LoadOrStore(order, at)
	return first.(time.Time) //nolint:forcetypeassert // only firstArrival stores values
}

// deliver ends the order of a callback. The argument arrived is when the first callback of the order arrived. An error
// means that Redis did not answer; the callback may be delivered again.
func (b *Buyer) deliver(ctx context.Context, l *spool.Letter, arrived time.Time) (outcome string, err error) {
	ctx = context.WithoutCancel(ctx)
	e, is, err := b.c.Pool.Find(ctx, l.Order)
	if err != nil {
		return "", err
	}
	if !is {
		return CallbackUnknown, nil
	}
	o := readOrder(&e)
	f := &o.facts
	switch {
	case l.Code == "" && !provider.IsAnswer(f.Identity.Type, l.Token):
		return CallbackMalformed, nil // the order goes on, and is polled
	case l.Task != "" && e.Task != "" && l.Task != e.Task:
		return CallbackMalformed, nil // a service that confuses tasks must not bring tokens of other pages
	case l.Task != "" && e.Task == "":
		f.Task = l.Task
		how, err := b.c.Pool.Bought(ctx, &o.journal, l.Task, row(o, b.c.Active))
		if err != nil {
			return "", err
		}
		if how == pool.RepeatedTask {
			return CallbackMalformed, nil
		}
	}
	// The service solved the token after the submit, and at most f.Delay before the callback arrived.
	n := news{trigger: solved, by: "callback", callback: true, born: o.submitted.Sub(o.placed), solvedAt: time.Now()}
	n.solution = provider.Solution{Token: l.Token, Extra: l.Extra, Expires: l.Expires}
	// if old is true, this is a dead letter, whose token should not age during a poll
	member, old := captcha.Of(f.Identity.Type).Extra, time.Since(arrived) > completeTime
	if a, _ := b.accounts.of(f); a != nil && !old && l.Code == "" && f.Task != "" && member != "" &&
		l.Extra.Members()[member] == "" {
		limited, stop := context.WithTimeout(ctx, completeTime) // some services leave it out of their callbacks
		if whole, err := a.Poll(limited, f.Task, f.Identity); err == nil {
			n.solution = whole
		}
		stop()
	}
	if !arrived.IsZero() {
		at := min(max(n.born, arrived.Sub(o.placed)), time.Since(o.placed)) // clocks may jump
		n.solvedAt, n.lead, n.born = o.placed.Add(at), at-n.born, max(n.born, at-f.Delay)
	}
	if l.Code != "" {
		n = news{trigger: failed, by: "callback", callback: true, err: errors.New(l.Code), code: l.Code}
		if l.BadParameters {
			n.trigger = badParameters
		}
	}
	how, err := b.end(ctx, o, pool.Bought, n)
	if err != nil {
		return "", err
	}
	if running := b.own(l.Order); running != nil {
		running.elsewhere.Store(true)
		running.stop()
	}
	switch how {
	case pool.Gone:
		return CallbackUnknown, nil
	case pool.Solved, pool.Discarded:
		return CallbackSettled, nil
	}
	return CallbackFailed, nil
}

// OpenDeadLetters opens the folder of the dead letters, and counts the letters that an earlier process left.
func (b *Buyer) OpenDeadLetters() error {
	if err := b.kept.Open(); err != nil {
		return err
	}
	b.logDisk(b.kept.Each(func(l spool.Letter) bool {
		b.firstArrival(l.Order, time.Time{})
		return true
	}))
	return nil
}

// DeadLetters lists the dead letters without their tokens, the oldest first. If some letters cannot be read,
// DeadLetters returns the others and an error.
func (b *Buyer) DeadLetters() ([]spool.Summary, error) { return b.kept.Show(time.Now()) }

// DeadLetterCount returns the number of dead letters, including unreadable ones.
func (b *Buyer) DeadLetterCount() int { return b.kept.Count() }

// Replay delivers the dead letters and counts their outcomes. An error means that Redis could not store a result, or
// that ctx ended.
func (b *Buyer) Replay(ctx context.Context) (outcomes map[string]int, err error) {
	outcomes = map[string]int{}
	var disk error
	unread := b.kept.Each(func(l spool.Letter) bool {
		outcome := DeadLetterExpired
		if time.Now().Before(l.Until) {
			var done string
			if done, err = b.deliver(ctx, &l, b.firstArrival(l.Order, time.Time{})); err != nil {
				return false
			}
			if outcome = DeadLetterDropped; done == CallbackSettled || done == CallbackFailed {
				outcome = DeadLetterReplayed
			}
		}
		b.arrivals.Delete(l.Order)
		if failed := b.kept.Remove(l.Order); failed != nil {
			disk = failed // the next replay drops it
			return true
		}
		outcomes[outcome]++
		b.c.Observer.Count("dead_letter", l.Provider, outcome)
		return ctx.Err() == nil
	})
	b.logDisk(errors.Join(unread, disk))
	if len(outcomes) > 0 {
		b.c.Log.Info("dead letters were replayed", "replayed", outcomes[DeadLetterReplayed], "dropped",
			outcomes[DeadLetterDropped], "expired", outcomes[DeadLetterExpired])
	}
	return outcomes, errors.Join(err, ctx.Err())
}

// logDisk logs once that the disk fails, and once that it works again.
func (b *Buyer) logDisk(err error) {
	switch was := b.diskFails.Swap(err != nil); {
	case err != nil && !was:
		b.c.Log.Error("dead letters cannot be read or removed", "err", err)
	case err == nil && was:
		b.c.Log.Info("dead letters can be read and removed again")
	}
}

// noteCallback notes whether an expected callback arrived. It logs when callbacks stop arriving, and when they arrive
// again.
func (b *Buyer) noteCallback(a *account, came bool) {
	b.accounts.mu.Lock()
	before := a.silent
	if a.silent++; came {
		a.silent = 0
	}
	after := a.silent
	b.accounts.mu.Unlock()
	switch {
	case after == silentAfter:
		b.c.Log.Warn("callbacks do not arrive, so tasks are polled: "+
			"check that the service can reach callback_url, the base address",
			"provider", a.Name(), "tasks", silentAfter)
	case came && before >= silentAfter:
		b.c.Log.Info("callbacks arrive again", "provider", a.Name())
	}
}
