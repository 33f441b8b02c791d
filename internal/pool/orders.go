package pool

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Lease is how long an order belongs to its owner after the last renewal. Then any replica may
// adopt it.
const Lease = 5 * time.Second

// saleKept is how long after a token's death a report about it is accepted.
const saleKept = 15 * time.Minute

// Orders keeps orders until they end, and decides which may be placed.
type Orders struct {
	*client

	notify *notifier

	endings int // Options.Endings

	listed redisdb.Seldom // identities for which orders are placed
}

// Ref names one order everywhere.
type Ref struct {
	Identity captcha.ID
	Order    string // unique, without a dot
}

// String is "order.identity".
func (r Ref) String() string { return r.Order + "." + string(r.Identity) }

var refForm = regexp.MustCompile(`^([A-Za-z0-9]{1,64})\.([0-9a-f]{32})$`)

// ParseRef is the inverse of String; false if the text is invalid.
func ParseRef(text string) (Ref, bool) {
	parts := refForm.FindStringSubmatch(text)
	if parts == nil {
		return Ref{}, false
	}
	return Ref{Order: parts[1], Identity: captcha.ID(parts[2])}, true
}

// Order describes one purchase to be placed beside the stock.
type Order struct {
	Ref
	Guest  bool // no target has the identity: Guests has it on its list
	Depth  int
	Margin time.Duration
	Lead   time.Duration // fresh tokens that do not outlive it do not count
	TTL    time.Duration // then it expires, even if it was not settled
	Price  int64         // of its token, in billionths of the currency, or PriceUnknown
	Facts  Facts
	// PerHour and PerDay are the target's budgets, in solves; 0 = no cap.
	PerHour, PerDay int
	// NotAfter: executed later, Place does nothing and fails with redisdb.ErrDown.
	NotAfter RedisTime
}

// Placing is the result of Place. The zero value means that the stock is deep enough.
type Placing struct {
	Placed     bool
	Paused     bool          // buying is paused
	BudgetWait time.Duration // above 0: a budget of the target has room only then
	// Bounded is set if the identity's last orders failed and the next one must wait.
	Bounded *BoundedError
}

// Place creates an order beside the stock while outliving + orders - waiting < depth, within the
// target's budgets, in one script. A retry for the same order counts once. This replica owns the
// order while it renews the lease.
func (s *Orders) Place(ctx context.Context, o Order) (Placing, error) {
	if err := s.list(ctx, o); err != nil {
		return Placing{}, err
	}
	r, err := s.call(ctx, "place", s.keys(o.Identity), args{
		"order": o.Order, "depth": o.Depth, "margin_ms": o.Margin, "lead_ms": o.Lead, "life_ms": o.TTL,
		"owner": s.replica, "lease_ms": Lease, "price": max(0, o.Price), "facts": o.Facts.encode(o.Price),
		"per_hour": o.PerHour, "per_day": o.PerDay, "not_after": o.NotAfter,
	})
	if err != nil {
		return Placing{}, err
	}
	switch outcome := r.Int("outcome"); outcome {
	case -3:
		return Placing{}, errLate
	case -4:
		bounded := &BoundedError{RetryAfter: r.Duration("wait_ms"), Hopeless: r.Is("hopeless"), Reason: r.Text("reason")}
		return Placing{Bounded: bounded}, r.Err
	default:
		return Placing{Placed: outcome == 1, Paused: outcome == -1, BudgetWait: r.Duration("wait_ms")}, r.Err
	}
}

// MarkSubmitting notes that the order's submit is about to leave, and renews its lease. If it
// returns false, the order is gone or another replica's, and must not be submitted.
func (s *Orders) MarkSubmitting(ctx context.Context, order Ref) (bool, error) {
	n, err := s.callNumber(ctx, "mark", s.keys(order.Identity), args{"order": order.Order, "owner": s.replica, "lease_ms": Lease})
	return n == 1, err
}

// ClaimTask assigns a provider's task to the order; false if another order has it. A service that
// answers with the id of another task must not fill two orders with one token.
func (s *Orders) ClaimTask(ctx context.Context, provider, task string, order Ref, ttl time.Duration) (bool, error) {
	key := s.task(provider, task)
	fresh, err := s.db.Slow.SetNX(ctx, key, order.String(), ttl).Result()
	if err != nil || fresh {
		return fresh, err
	}
	holder, err := s.db.Slow.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return true, nil // it expired in between, with its order
	}
	return holder == order.String(), err
}

// Submitted writes the provider's task id into the journal and makes this replica the owner. It
// returns false if the order is gone: a callback was faster, or its deadline passed.
func (s *Orders) Submitted(ctx context.Context, order Ref, task string) (bool, error) {
	n, err := s.callNumber(ctx, "submitted", s.keys(order.Identity), args{
		"order": order.Order, "task": url.QueryEscape(task), "owner": s.replica, "lease_ms": Lease,
	})
	return n == 1, err
}

// Unknown notes that it is unknown whether the order's submit was accepted. The order counts as
// bought, needs no lease and ends after hold. Unknown returns false if the order is gone or its
// task is known by now.
func (s *Orders) Unknown(ctx context.Context, order Ref, hold time.Duration) (bool, error) {
	n, err := s.callNumber(ctx, "unknown", s.keys(order.Identity), args{"order": order.Order, "owner": s.replica, "left_ms": hold})
	return n == 1, err
}

// Asked is how a provider took part in an order that ended.
type Asked struct {
	Provider  string
	Task      string        // its id; "" = none is known
	Code      string        // its error code; "" = none
	Submitted time.Duration // from Place's answer to the submit
	Polls     int
}

// EndResult is the result of Settle or Fail.
type EndResult int

// The endings.
const (
	Gone     EndResult = 0  // the order does not exist: it ended before
	Ended    EndResult = 1  // this call ended it
	NotOwner EndResult = -1 // another replica owns it; unchanged
	// Repeated: Settle ended it as failed, because a living token of the identity, taken or
	// not, has the same text.
	Repeated EndResult = 2
)

// Settle ends an order with its token: one script removes the order and puts the token into the
// stock. If a service sold the same text before, the order ends as Repeated.
func (s *Orders) Settle(ctx context.Context, l Landing) (EndResult, error) {
	k := s.keys(l.Identity)
	k.sale += l.Order
	hash := ""
	if !l.Repeats {
		value := sha256.Sum256([]byte(l.Value))
		hash = hex.EncodeToString(value[:16])
	}
	reply, err := s.callNumber(ctx, "settle", k, args{
		"order": l.Order, "birth_ms": l.SincePlaced, "lifetime_ms": l.Lifetime, "lead_ms": l.Lead, "rest": elementTail(l), "hash": hash,
		"channel": s.db.Channel(), "identity": l.Identity, "owner": s.owner(l.Callback), "call": cmp.Or(l.Call, rand.Text()),
		"seller": l.Provider + "|" + url.QueryEscape(l.Task), "sale_ms": saleKept, "submit": l.endFields(),
		"answer": l.Answer.text(), "margin_ms": l.Margin, "attempts_ms": attemptsLife,
	})
	if err != nil {
		return Gone, err
	}
	s.notify.wakeWaiters(l.Identity)
	return EndResult(reply), nil
}

// Failure says how an order ended without a token.
type Failure struct {
	Ref
	Call     string // as of Landing
	Bought   bool   // counts as failed; else nothing was bought, and the budgets are refunded
	Lost     bool   // with Bought: the service may have solved it, so it counts as lost and its price as spent
	Late     bool   // with Bought: it timed out, and the service may still solve it: it counts as failed and its price as spent
	Callback bool   // a callback brought the failure; it needs no lease
	Message  string // with Callback: the argument of OnEnded at the replicas
	// Asked is how the provider took part; nil = it was not asked, and the history gets no
	// record.
	Asked *Asked
	// Answer ends the wait of one caller if more callers wait than orders and fresh tokens
	// are left. It is the caller that has waited longest at the order's owner, else at any
	// replica. The same step removes its ticket, so that no other order is placed for it.
	// Its next take returns the answer if it has Request.EndOnFailure. nil = no answer.
	Answer *FailedError
	Margin time.Duration // of the identity, with Answer
	// Attempt is the effect of the end on the identity's bound, and Reason its cause.
	Attempt Attempt
	Reason  string
	Guest   bool // no target has the identity
}

// Fail ends an order without a token. An order that counts as bought cannot end as not bought:
// that returns NotOwner, too.
func (s *Orders) Fail(ctx context.Context, f Failure) (EndResult, error) {
	k := s.keys(f.Identity)
	k.sale += f.Order
	kind := "0"
	switch {
	case f.Bought && f.Lost:
		kind = "lost"
	case f.Bought && f.Late:
		kind = "late"
	case f.Bought:
		kind = "1"
	}
	reply, err := s.callNumber(ctx, "fail", k, args{
		"order": f.Order, "kind": kind, "owner": s.owner(f.Callback), "call": cmp.Or(f.Call, rand.Text()),
		"channel": s.db.Channel(), "identity": f.Identity, "message": f.Message, "ending": f.endFields(),
		"answer": f.Answer.text(), "margin_ms": f.Margin,
		"effect": f.Attempt, "reason": CutReason(f.Reason), "attempts_ms": attemptsKept(f.Attempt, f.Guest),
	})
	if err != nil {
		return Gone, err
	}
	if f.Answer == nil {
		s.notify.changed(f.Identity)
	} else {
		s.notify.wakeWaiters(f.Identity)
	}
	return EndResult(reply), nil
}

// Remembers reports whether an order ended, at any replica. It remembers an end with a token
// for as long as reports about the token are accepted, and an end without one for a minute.
func (s *Orders) Remembers(ctx context.Context, order Ref) (bool, error) {
	n, err := s.db.Slow.Exists(ctx, s.keys(order.Identity).sale+order.Order).Result()
	return n == 1, err
}

// owner returns the replica that must hold the lease; "" = any.
func (s *Orders) owner(callback bool) string {
	if callback {
		return ""
	}
	return s.replica
}

// State is the progress of an order.
type State byte

// The states of an order.
const (
	Intent     State = 'i' // placed; nothing was sent
	Submitting State = 's' // its submit may have left
	Bought     State = 'b' // the provider accepted it, and the task is known
	Unknown    State = 'u' // it is unknown whether the provider accepted it
)

// Record is an order as the journal knows it.
type Record struct {
	Ref
	State      State
	Price      int64  // of its token, in billionths of the currency, or PriceUnknown
	Task       string // the provider's id; "" before it is known
	Facts      Facts
	Unreadable error // why Facts are incomplete; nil = they were read
	// Placed and Until are on this process' clock: the latest and the earliest possible
	// moment.
	Placed time.Time
	Until  time.Time // when it expires
	// Unsolved is the time from Placed to the last moment at which it was surely unsolved.
	Unsolved time.Duration
	At       RedisTime // when it was placed
}

// Find reads one order; false if there is none.
func (s *Orders) Find(ctx context.Context, order Ref) (Record, bool, error) {
	asked := time.Now()
	found, err := s.call(ctx, "find", s.keys(order.Identity), args{"order": order.Order})
	if err != nil || len(found.List()) == 0 {
		return Record{}, false, err
	}
	r, err := readRecord(order, found, asked, time.Now())
	return r, err == nil, err
}
