package pool

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// errLate: Redis carried a step out after its NotAfter.
var errLate = fmt.Errorf("%w in time, or the clocks of its nodes do not agree", ErrDown)

// Moment is a time on Redis' clock, in Unix ms; 0 = none.
type Moment int64

// After is d later.
func (m Moment) After(d time.Duration) Moment { return m + Moment(d.Milliseconds()) }

// Book reserves one solve in the budget over all targets; the same order may
// ask again and counts once. wait is 0 where it is reserved, else how long it
// takes until there is room. Carried out after notAfter it does nothing and fails
// with ErrDown.
func (s *Orders) Book(ctx context.Context, order Ref, perDay int, notAfter Moment) (wait time.Duration, err error) {
	reply, err := s.number(ctx, s.scripts.budget, []string{s.overall()}, order.String(), perDay, int64(notAfter))
	if err == nil && reply < 0 {
		err = errLate
	}
	return max(0, time.Duration(reply)*time.Millisecond), err
}

// Refund takes an order out of the budget over all targets.
func (s *Orders) Refund(ctx context.Context, order Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return down(s.slow.ZRem(ctx, s.overall(), order.String()).Err())
}

// Booked counts the solves of the last 24 h in the budget over all targets, by
// this process' clock.
func (s *Orders) Booked(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	from := "(" + strconv.FormatInt(time.Now().Add(-24*time.Hour).UnixMilli(), 10)
	n, err := s.slow.ZCount(ctx, s.overall(), from, "+inf").Result()
	return int(n), down(err)
}
