package pool

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// endedKept is how long Redis keeps the end of an order unless Forget removes the end earlier.
const endedKept = 7 * 24 * time.Hour

// Endings reads and removes the ends of orders. The script that ends an order also stores an entry
// about the end, which the history reads.
type Endings struct{ *client }

// The values of EndedOrder.How.
const (
	EndSolved    = "solved"
	EndDiscarded = "discarded" // the order's token had expired before the landing
	EndFailed    = "failed"
	EndRefused   = "refused" // the provider refused the submit; nothing was bought
	EndLost      = "lost"    // the order's deadline passed before its outcome was known
)

// PriceUnknown is the price of a token if pools.yaml has no price for it. Redis stores 0 and
// Facts.Unpriced instead.
const PriceUnknown = -1

// CodeTimeout is the EndedOrder.Code of an order that failed because it timed out.
const CodeTimeout = "TIMEOUT"

// EndedOrder describes how one order ended. EndedOrder's times are on Redis' clock.
type EndedOrder struct {
	Ref
	How        string
	Code       string // error code of the provider; "" = none
	Provider   string // the provider that had the order at its end; "" = Facts.Provider
	Task       string // the provider's task id; "" = unknown
	Polls      int
	Callback   bool
	Price      int64 // price of the token in billionths of the currency, or PriceUnknown
	Facts      Facts
	Unreadable error // why Facts is incomplete; nil = Facts is complete
	// Solved is the earliest possible time of the solve; zero = the order brought no token.
	Placed, Submitted, Solved, Ended time.Time

	line string // the entry as Redis stores it
}

// Kept returns the stored ended orders of the given identities, oldest first, and at most limit for each
// identity. If err is not nil, Kept still returns the ends that it could read.
func (s *Endings) Kept(ctx context.Context, ids []captcha.ID, limit int) (all []EndedOrder, err error) {
	pipe := s.db.Slow.Pipeline()
	answers := make([]*redis.ZSliceCmd, len(ids))
	for i, id := range ids {
		answers[i] = pipe.ZRangeWithScores(ctx, s.keys(id).ended, 0, int64(limit)-1)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, id := range ids {
		answer := answers[i]
		if answer.Err() != nil {
			err = answer.Err()
			continue
		}
		for _, member := range answer.Val() {
			line, _ := member.Member.(string)
			o, err := readEnded(id, line, int64(member.Score))
			if err != nil {
				s.log.Error("dropped an unreadable end of an order", "identity", id, "err", err)
				s.db.Slow.ZRem(ctx, s.keys(id).ended, line)
				continue
			}
			all = append(all, o)
		}
	}
	return all, err
}

// Forget removes the ends of orders that the history has stored. Forget is idempotent.
func (s *Endings) Forget(ctx context.Context, orders []EndedOrder) error {
	lines := map[captcha.ID][]any{}
	for _, o := range orders {
		lines[o.Identity] = append(lines[o.Identity], o.line)
	}
	if len(lines) == 0 {
		return nil
	}
	pipe := s.db.Slow.Pipeline()
	for id, members := range lines {
		pipe.ZRem(ctx, s.keys(id).ended, members...)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// readEnded parses the stored end of an identity's order. The argument at is the time of the end in
// Unix ms.
func readEnded(id captcha.ID, line string, at int64) (EndedOrder, error) {
	f := fields{rest: line}
	o := EndedOrder{Ref: Ref{Identity: id, Order: f.text()}, Ended: utc(at), line: line}
	placed, unsolved := f.number(), f.number()
	price := f.number()
	o.Task = f.escaped()
	o.How, o.Code, o.Provider = f.text(), f.escaped(), f.escaped()
	o.Task = cmp.Or(f.escaped(), o.Task)
	submit, polls, callback, solve := f.number(), f.number(), f.text(), f.number()
	if f.err != nil {
		return EndedOrder{}, f.err
	}
	o.Polls, o.Callback = int(polls), callback == "1"
	o.Facts, o.Price, o.Unreadable = decodeFacts(f.rest, price)
	if submit < 0 {
		submit = unsolved // the time of the submit from the journal
	}
	o.Placed, o.Submitted = utc(placed), utc(placed+submit)
	if solve >= 0 {
		o.Solved = utc(placed + solve)
	}
	return o, nil
}

// endFields returns the fields of a landing that the history needs and the journal lacks: submit
// time, polls and callback.
func (l Landing) endFields() string {
	return strings.Join([]string{milliseconds(l.Submitted), strconv.Itoa(l.Polls), flag(l.Callback)}, "|")
}

// endFields returns the fields of a failure that the history needs and the journal lacks. If no
// provider was called, the result is "" and Redis keeps no end for the history.
func (f Failure) endFields() string {
	if f.Asked == nil {
		return ""
	}
	how := EndFailed
	switch {
	case !f.Bought:
		how = EndRefused
	case f.Lost:
		how = EndLost
	}
	a := f.Asked
	return strings.Join([]string{
		how, url.QueryEscape(a.Code), url.QueryEscape(a.Provider), url.QueryEscape(a.Task),
		milliseconds(a.Submitted), strconv.Itoa(a.Polls), flag(f.Callback),
	}, "|")
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// Sweep returns the identities for which Redis stores ended orders of any replica. Sweep reads the
// list of guests and the list of placed identities. The result includes identities whose ends
// cannot be read; see Kept.
func (s *Endings) Sweep(ctx context.Context) (found []captcha.ID, err error) {
	now := float64(time.Now().UnixMilli())
	for _, list := range []string{s.placedKey(), s.guests().guests} {
		for from, more := int64(0), true; more; {
			members, err := s.db.Slow.ZRangeWithScores(ctx, list, from, from+sweepBatch-1).Result()
			if err != nil {
				return found, err
			}
			batch, err := s.haveEnds(ctx, members)
			if err != nil {
				return found, err
			}
			var over []any
			for i, m := range members {
				switch name, _ := m.Member.(string); {
				case batch[i]:
					found = append(found, captcha.ID(name))
				case list == s.placedKey() && m.Score < now:
					over = append(over, name)
				}
			}
			if len(over) > 0 {
				if err := s.db.Slow.ZRem(ctx, list, over...).Err(); err != nil {
					return found, err
				}
			}
			from += int64(len(members) - len(over))
			more = len(members) == sweepBatch
		}
	}
	return found, nil
}

// haveEnds reports for each identity whether it has ended orders.
func (s *Endings) haveEnds(ctx context.Context, identities []redis.Z) ([]bool, error) {
	pipe := s.db.Slow.Pipeline()
	counts := make([]*redis.IntCmd, len(identities))
	for i, m := range identities {
		name, _ := m.Member.(string)
		counts[i] = pipe.ZCard(ctx, s.keys(captcha.ID(name)).ended)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	have := make([]bool, len(identities))
	for i, count := range counts {
		if err := count.Err(); err != nil {
			return nil, err
		}
		have[i] = count.Val() > 0
	}
	return have, nil
}

// sweepBatch is the maximum number of identities that one exchange checks.
const sweepBatch = 500

const (
	// placedEvery is the minimum interval between two writes of one identity to the list of placed
	// identities by one process.
	placedEvery = 10 * time.Minute
	// placedKept is how long an identity stays on the list after the deadline of its order. placedKept
	// exceeds placedEvery, because listPlaced may skip the write for a later order. The rest of the
	// time is for scripts that end an order late.
	placedKept = 2 * time.Hour
)

// listPlaced adds an identity to the list of placed identities, so that Sweep finds the ends of the
// identity's orders even if no replica settles them. For each identity, listPlaced makes at most
// one exchange with Redis per placedEvery.
func (s *Orders) listPlaced(ctx context.Context, o Order) error {
	if o.Guest || s.endings == 0 {
		return nil
	}
	return s.listed.Do(string(o.Identity), func(at time.Time) error {
		pipe := s.db.Slow.Pipeline()
		pipe.ZAddArgs(ctx, s.placedKey(), redis.ZAddArgs{GT: true, Members: []redis.Z{
			{Score: float64(at.Add(o.TTL + placedKept).UnixMilli()), Member: string(o.Identity)},
		}})
		pipe.PExpire(ctx, s.placedKey(), endedKept)
		_, err := pipe.Exec(ctx)
		return err
	})
}
