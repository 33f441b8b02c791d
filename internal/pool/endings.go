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

// endedKept is how long the end of an order is kept unless Forget removes it.
const endedKept = 7 * 24 * time.Hour

// Endings are the ends of orders. The script that ends an order keeps its end beside the stock
// until Forget removes it.
type Endings struct{ *client }

// How an order ended, in EndedOrder.How.
const (
	EndSolved    = "solved"
	EndDiscarded = "discarded" // its token had expired when it came
	EndFailed    = "failed"
	EndRefused   = "refused" // at the submit; nothing was bought
	EndLost      = "lost"    // its deadline passed first
)

// PriceUnknown is the price of a token for which the file has none. It is stored as 0 with
// Facts.Unpriced.
const PriceUnknown = -1

// CodeTimeout is EndedOrder.Code of an order that failed because its time was over.
const CodeTimeout = "TIMEOUT"

// EndedOrder is the end of one order. Its times are on Redis' clock.
type EndedOrder struct {
	Ref
	How        string
	Code       string // the provider's; "" = none
	Provider   string // asked last; "" = Facts.Provider
	Task       string // the provider's id; "" = none is known
	Polls      int
	Callback   bool
	Price      int64 // of its token, in billionths of the currency, or PriceUnknown
	Facts      Facts
	Unreadable error // why Facts are incomplete; nil = they were read
	// Solved is the earliest possible time of the solve; zero = there is no token.
	Placed, Submitted, Solved, Ended time.Time

	line string // in Redis
}

// Kept returns the kept ends of some identities, at most most of each, oldest first. unread has
// the identities whose key holds another program's value, and the error. The other ends are
// returned even if there is an error.
func (s *Endings) Kept(ctx context.Context, ids []captcha.ID, most int) (all []EndedOrder, unread map[captcha.ID]error, err error) {
	pipe := s.db.Slow.Pipeline()
	answers := make([]*redis.ZSliceCmd, len(ids))
	for i, id := range ids {
		answers[i] = pipe.ZRangeWithScores(ctx, s.keys(id).ended, 0, int64(most)-1)
	}
	if len(ids) == 0 {
		return nil, nil, nil
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	unread = map[captcha.ID]error{}
	var failed error
	for i, id := range ids {
		answer := answers[i]
		switch {
		case isForeign(answer.Err()):
			unread[id] = s.db.Explain(ctx, answer.Err(), []string{s.keys(id).ended})
			continue
		case answer.Err() != nil:
			failed = answer.Err()
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
	return all, unread, failed
}

// isForeign reports whether a command failed because its key holds another type.
func isForeign(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// Forget removes ends that the history has. It is idempotent.
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

// readEnded reads a line of an identity; at is when it was written, Unix ms.
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
		submit = unsolved // the journal's own time of the submit
	}
	o.Placed, o.Submitted = utc(placed), utc(placed+submit)
	if solve >= 0 {
		o.Solved = utc(placed + solve)
	}
	return o, nil
}

// endFields returns what the history needs about a landing and the journal lacks: submit time,
// polls, callback.
func (l Landing) endFields() string {
	return strings.Join([]string{milliseconds(l.Submitted), strconv.Itoa(l.Polls), flag(l.Callback)}, "|")
}

// endFields returns what the history needs about a failure and the journal lacks. "" = no provider
// was asked, so no end is kept.
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

// Sweep finds the identities that have ends, whichever replica placed the orders. It reads the
// list of placed identities, which has the targets', and the list of guests. It also finds
// identities whose ends cannot be read; see Kept.
func (s *Endings) Sweep(ctx context.Context) (found []captcha.ID, err error) {
	now := float64(time.Now().UnixMilli())
	for _, list := range []string{s.placed(), s.guests().guests} {
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
				case list == s.placed() && m.Score < now:
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

// haveEnds reports for each identity whether it has ends, or a value of another program in their
// place.
func (s *Endings) haveEnds(ctx context.Context, identities []redis.Z) ([]bool, error) {
	pipe := s.db.Slow.Pipeline()
	counts := make([]*redis.IntCmd, len(identities))
	for i, m := range identities {
		name, _ := m.Member.(string)
		counts[i] = pipe.ZCard(ctx, s.keys(captcha.ID(name)).ended)
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	have := make([]bool, len(identities))
	for i, count := range counts {
		if err := count.Err(); err != nil && !isForeign(err) {
			return nil, err
		}
		have[i] = count.Val() > 0 || count.Err() != nil
	}
	return have, nil
}

// sweepBatch is how many identities are looked at in one exchange.
const sweepBatch = 500

const (
	// placedEvery is the time between two writes of an identity by one process.
	placedEvery = 10 * time.Minute
	// placedKept outlives that, and an order's end that no replica has seen by then.
	placedKept = 2 * time.Hour
)

// list writes to Redis that orders are placed for an identity, so that Sweep finds the ends of
// orders that no replica settles. Once in placedEvery this costs one more exchange.
func (s *Orders) list(ctx context.Context, o Order) error {
	if o.Guest || s.endings == 0 {
		return nil
	}
	return s.listed.Do(string(o.Identity), func(at time.Time) error {
		pipe := s.db.Slow.Pipeline()
		pipe.ZAddArgs(ctx, s.placed(), redis.ZAddArgs{GT: true, Members: []redis.Z{
			{Score: float64(at.Add(o.TTL + placedKept).UnixMilli()), Member: string(o.Identity)},
		}})
		pipe.PExpire(ctx, s.placed(), endedKept)
		_, err := pipe.Exec(ctx)
		return err
	})
}
