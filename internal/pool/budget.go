package pool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"poold/internal/redisdb"

	"github.com/redis/go-redis/v9"
)

// errLate means that Redis executed a script after its not_after time, so the script did nothing.
var errLate = fmt.Errorf("%w in time, or the clocks of its nodes do not agree", redisdb.ErrDown)

// RedisTime is a time on Redis' clock, in Unix ms; 0 = none.
type RedisTime int64

// After returns the time m + d.
func (m RedisTime) After(d time.Duration) RedisTime { return m + RedisTime(d.Milliseconds()) }

// Budget is the name of a budget that many identities share.
type Budget string

// These are the shared budgets.
const (
	Overall  Budget = "overall" // counts all orders
	OfGuests Budget = "solve"   // counts the orders of guests
)

// Caps limit the solves of a budget in any 60 min and in any 24 h; 0 = no limit.
type Caps struct{ PerHour, PerDay int }

// Book reserves one solve in a shared budget. Repeated calls for one order count once. The result
// wait is 0 if the solve is reserved, else the time until the budget has room. If Redis executes the
// script after notAfter, Book reserves nothing and fails with redisdb.ErrDown.
func (s *Orders) Book(ctx context.Context, budget Budget, order Ref, caps Caps, notAfter RedisTime) (wait time.Duration, err error) {
	reply, err := s.callNumber(ctx, "budget", redisdb.Keys{"spend": s.budgetKey(budget)}, args{
		"order": order.String(), "per_hour": caps.PerHour, "per_day": caps.PerDay, "not_after": notAfter,
	})
	if err == nil && reply < 0 {
		err = errLate
	}
	return max(0, time.Duration(reply)*time.Millisecond), err
}

// Refund removes an order from a shared budget. Refund is a no-op if the budget does not contain the
// order.
func (s *Orders) Refund(ctx context.Context, budget Budget, order Ref) error {
	return s.db.Slow.ZRem(ctx, s.budgetKey(budget), order.String()).Err()
}

// Booked counts the solves of the last 60 min and of the last 24 h in a shared budget. Booked uses
// this process' clock.
func (s *Orders) Booked(ctx context.Context, budget Budget) (hour, day int, err error) {
	now, pipe := time.Now(), s.db.Slow.Pipeline()
	since := func(span time.Duration) *redis.IntCmd {
		return pipe.ZCount(ctx, s.budgetKey(budget), "("+strconv.FormatInt(now.Add(-span).UnixMilli(), 10), "+inf")
	}
	inHour, inDay := since(time.Hour), since(24*time.Hour)
	_, err = pipe.Exec(ctx)
	return int(inHour.Val()), int(inDay.Val()), err
}
