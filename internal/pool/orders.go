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

// Lease is how long an order belongs to its owner after the last renewal. After this time any replica
// may adopt the order.
const Lease = 5 * time.Second

// saleKept is how long after a token's death Report still accepts a report on the token.
const saleKept = 15 * time.Minute

// Orders stores orders until they end, and decides whether an order may be placed.
type Orders struct {
	*client

	notify *notifier

	endings int // Options.Endings

	listed redisdb.Seldom // limits how often listPlaced writes
}

// Ref identifies one order at every replica.
type Ref struct {
	Identity captcha.ID
	Order    string // unique, without a dot
}

// String returns "order.identity".
func (r Ref) String() string { return r.Order + "." + string(r.Identity) }

var refForm = regexp.MustCompile(`^([A-Za-z0-9]{1,64})\.([0-9a-f]{32})$`)

// ParseRef parses the text that Ref.String returns. The result is false if the text is invalid.
func ParseRef(text string) (Ref, bool) {
	parts := refForm.FindStringSubmatch(text)
	if parts == nil {
		return Ref{}, false
	}
	return Ref{Order: parts[1], Identity: captcha.ID(parts[2])}, true
}

// Order describes a new order for Place.
type Order struct {
	Ref
	Guest  bool // whether no target has the identity; such an identity is on the list of Guests
	Depth  int
	Margin time.Duration
	Lead   time.Duration // a token in stock counts only if it outlives Margin + Lead
	TTL    time.Duration // time until the order's deadline
	Price  int64         // price of the token in billionths of the currency, or PriceUnknown
	Facts  Facts
	// PerHour and PerDay are the target's budgets, in solves; 0 = no limit.
	PerHour, PerDay int
	// If Redis executes place.lua after NotAfter, Place stores nothing and fails with
	// redisdb.ErrDown.
	NotAfter RedisTime
}

// Placing is the result of Place. The zero value means that the stock already has the wanted depth.
type Placing struct {
	Placed     bool
	Paused     bool          // whether buying is paused
	BudgetWait time.Duration // time until the target's budgets have room; 0 = they have room now
	// Bounded is set if the identity's last orders failed and the next one must wait.
	Bounded *BoundedError
}

// Place stores an order if Stock.Outliving + Stock.Orders - Stock.Waiting < o.Depth and the
// target's budgets have room. One script checks this and stores the order. Repeated calls for one
// order count once. This replica owns the order while it renews the lease.
func (s *Orders) Place(ctx context.Context, o Order) (Placing, error) {
	if err := s.listPlaced(ctx, o); err != nil {
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

// MarkSubmitting records that this replica is about to submit the order, and renews the lease. If the
// result is false, the order has ended or has another owner, and must not be submitted.
func (s *Orders) MarkSubmitting(ctx context.Context, order Ref) (bool, error) {
	n, err := s.callNumber(ctx, "mark", s.keys(order.Identity), args{"order": order.Order, "owner": s.replica, "lease_ms": Lease})
	return n == 1, err
}

// ClaimTask assigns a provider's task to the order. The result is false if the task belongs to
// another order. Without this check, a service that returns one task id twice could fill two orders
// with one token.
func (s *Orders) ClaimTask(ctx context.Context, provider, task string, order Ref, ttl time.Duration) (bool, error) {
	key := s.taskKey(provider, task)
	fresh, err := s.db.Slow.SetNX(ctx, key, order.String(), ttl).Result()
	if err != nil || fresh {
		return fresh, err
	}
	holder, err := s.db.Slow.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return true, nil // the assignment expired between the two commands
	}
	return holder == order.String(), err
}

// Submitted writes the provider's task id into the journal and makes this replica the owner. The
// result is false if a callback or the deadline has already ended the order.
func (s *Orders) Submitted(ctx context.Context, order Ref, task string) (bool, error) {
	n, err := s.callNumber(ctx, "submitted", s.keys(order.Identity), args{
		"order": order.Order, "task": url.QueryEscape(task), "owner": s.replica, "lease_ms": Lease,
	})
	return n == 1, err
}

// Unknown records that the provider may or may not have accepted the order. The order then counts as
// bought, needs no lease and ends after the given time at the latest. Unknown returns false if the
// order has ended, its task is known, or another replica owns it.
func (s *Orders) Unknown(ctx context.Context, order Ref, limit time.Duration) (bool, error) {
	n, err := s.callNumber(ctx, "unknown", s.keys(order.Identity), args{"order": order.Order, "owner": s.replica, "left_ms": limit})
	return n == 1, err
}

// Asked describes the calls to a provider for an ended order.
type Asked struct {
	Provider  string
	Task      string        // the provider's task id; "" = unknown
	Code      string        // the provider's error code; "" = none
	Submitted time.Duration // time from the reply of Place to the submit
	Polls     int
}

// EndResult is the result of a call that ends an order.
type EndResult int

// These are the results.
const (
	Gone     EndResult = 0  // the order does not exist, because it had already ended
	Ended    EndResult = 1  // this call ended the order
	NotOwner EndResult = -1 // another replica owns the order; nothing was changed
	// Repeated means that Settle ended the order as failed, because an unexpired token of the identity has
	// the same text. That token may be in stock or taken.
	Repeated EndResult = 2
)

// Settle ends an order with its token. One script removes the order and puts the token into the
// stock. If an unexpired token of the identity has the same text, the order ends as Repeated instead.
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

// Failure describes how an order ends without a token.
type Failure struct {
	Ref
	Call   string // identifies this call of Fail, as Landing.Call does for Settle
	Bought bool   // whether the order was bought; if not, the budgets are refunded
	// Lost and Late are for bought orders that the service may have solved or may still solve. The
	// price of such an order counts as spent. A Late order timed out and counts as failed; a Lost
	// order counts as lost.
	Lost, Late bool
	Callback   bool   // whether a callback reported the failure, so that Fail needs no lease
	Message    string // argument of OnEnded at each replica, if Callback is set
	// Asked describes the calls to the provider. If Asked is nil, no provider was called and the
	// history gets no record.
	Asked *Asked
	// Answer ends the wait of one caller if the pending callers outnumber the remaining orders and
	// fresh tokens. Fail chooses the longest-waiting caller at the replica that owns the order, or
	// else the longest-waiting caller of all replicas. Fail removes the caller's ticket, so that no
	// other order is placed for this caller. If Request.EndOnFailure is set, the caller's Take fails
	// with Answer. If Answer is nil, no wait ends.
	Answer *FailedError
	Margin time.Duration // margin of the identity; required with Answer
	// Attempt decides how the failure delays the identity's next order. Reason explains the delay.
	Attempt Attempt
	Reason  string
	Guest   bool // whether no target has the identity
}

// Fail ends an order without a token. If the order counts as bought and f.Bought is false, Fail
// changes nothing and returns NotOwner.
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

// Remembers reports whether Redis knows that an order has ended. Any replica may have ended the
// order. If the order ended with a token, Redis knows this until Report refuses reports on the
// token, else for a minute.
func (s *Orders) Remembers(ctx context.Context, order Ref) (bool, error) {
	n, err := s.db.Slow.Exists(ctx, s.keys(order.Identity).sale+order.Order).Result()
	return n == 1, err
}

// owner returns the replica that may end an order, or "" for a callback, which needs no lease.
func (s *Orders) owner(callback bool) string {
	if callback {
		return ""
	}
	return s.replica
}

// State is the progress of an order.
type State byte

// These are the states.
const (
	Intent     State = 'i' // placed; nothing was sent
	Submitting State = 's' // the submit may have been sent
	Bought     State = 'b' // the provider accepted the order, and the task is known
	Unknown    State = 'u' // the provider may or may not have accepted the order
)

// Record is the journal's record of an order.
type Record struct {
	Ref
	State      State
	Price      int64  // price of the token in billionths of the currency, or PriceUnknown
	Task       string // the provider's task id; "" = not known yet
	Facts      Facts
	Unreadable error // why Facts is incomplete; nil = Facts is complete
	// Placed and Until are on this process' clock. Placed is the latest possible time of the placing,
	// and Until is the earliest possible time of the deadline.
	Placed time.Time
	Until  time.Time
	// Unsolved is the time after Placed during which the task was certainly not solved.
	Unsolved time.Duration
	At       RedisTime // time of the placing on Redis' clock
}

// Find reads one order. The result is false if the order does not exist.
func (s *Orders) Find(ctx context.Context, order Ref) (Record, bool, error) {
	asked := time.Now()
	found, err := s.call(ctx, "find", s.keys(order.Identity), args{"order": order.Order})
	if err != nil || len(found.List()) == 0 {
		return Record{}, false, err
	}
	r, err := readRecord(order, found, asked, time.Now())
	return r, err == nil, err
}
