package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// mostGuests is how many there may be.
	mostGuests = 100_000
	// guestUnused is how long after the Wait of its last use a guest is looked at.
	guestUnused = time.Minute
	// guestBatch is how many are seen to in one exchange.
	guestBatch = 128
	// surveyTries is how often guests are counted while others come to their ends. The
	// last time these wait for it, for surveyHold at most.
	surveyTries = 4
	surveyHold  = 10 * time.Second
)

// errRestless: guests came to their ends all the time while they were counted.
var errRestless = errors.New("pool: guests come and go too fast to be counted")

// Guests are the identities that are asked for and that no target has. All replicas know
// them, until their last token and order are over; then they are counted together. It
// is safe for concurrent use.
type Guests struct {
	*client

	most int // mostGuests, but in tests
}

// GuestUse says how a guest is used, and the limits that it must keep.
type GuestUse struct {
	// Wait is how long its caller may wait, and a token that it is given may come back.
	Wait time.Duration
	// Rate guests are asked for at most within any RatePer, over all replicas; 0 = no
	// limit.
	Rate    int
	RatePer time.Duration
}

// Use notes that a guest is asked for, before anything else is done with it: also
// before a report on its token is counted, with a zero GuestUse. It fails with a
// *RateError where the rate is used up, and with an *EmptyError that says Full where
// there are 100,000 others.
func (g *Guests) Use(ctx context.Context, id captcha.ID, u GuestUse) error {
	k := g.guests()
	reply, err := g.db.Eval(ctx, g.scripts.guest.use, []string{k.list, k.rate},
		string(id), (u.Wait + guestUnused).Milliseconds(), g.most, u.Rate, u.RatePer.Milliseconds())
	if err != nil {
		return err
	}
	n, err := redisdb.Integers(reply, 2)
	switch {
	case err != nil:
		return err
	case n[0] == 0:
		return &RateError{RetryAfter: time.Duration(n[1]) * time.Millisecond}
	case n[0] < 0:
		return &EmptyError{Full: true}
	}
	return nil
}

// Count adds requests for guests that the stock does not count: refused ones, which never
// asked it, and replays of callers that joined a wait. An error leaves open whether they
// were counted.
func (g *Guests) Count(ctx context.Context, refused, replays int) error {
	_, err := g.db.Eval(ctx, g.scripts.guest.count, []string{g.guests().row, g.guestsCounted(rand.Text())},
		"requests", refused, "refused", refused, "replays", replays)
	return err
}

// GuestStock is what all guests hold together.
type GuestStock struct {
	Guests  int // that are asked for, or hold something
	Fresh   int // tokens that live; no margin is taken off
	Orders  int // under way
	Bought  int // of the orders: count as bought
	Waiting int // live tickets
	// Figures are those of all guests that ever were. They balance as those of one
	// identity do: what targets took over is Discarded.
	Figures Figures
}

// Survey tells what all guests hold. What it counts never goes back from one answer to
// the next. It fails where anything is not known.
func (g *Guests) Survey(ctx context.Context) (GuestStock, error) {
	for try := 1; ; try++ {
		var hold time.Duration
		if try == surveyTries {
			hold = surveyHold
		}
		stock, settled, err := g.survey(ctx, hold)
		switch {
		case err != nil:
			return GuestStock{}, err
		case settled:
			return stock, nil
		case try == surveyTries:
			return GuestStock{}, errRestless
		}
	}
}

// survey counts once; settled is false where the figures of a guest were added to the
// row meanwhile, which are missing then, or counted twice. Nobody adds any for hold.
func (g *Guests) survey(ctx context.Context, hold time.Duration) (stock GuestStock, settled bool, err error) {
	k, name := g.guests(), rand.Text()
	reply, err := g.db.Eval(ctx, g.scripts.guest.row, []string{k.list, k.row, k.hold}, name, hold.Milliseconds())
	if err != nil {
		return stock, false, err
	}
	lists, _ := reply.([]any)
	if len(lists) != 2 {
		return stock, false, fmt.Errorf("pool: a survey was answered %d lists", len(lists))
	}
	var folds string
	for name, value := range pairs(lists[0]) {
		if name == "folds" {
			folds = value
		}
		stock.Figures.add(name, value)
	}
	ids, _ := lists[1].([]any)
	stock.Guests = len(ids)
	apart := map[string]any{} // figures that may be in the row by now, by their names
	for batch := range slices.Chunk(ids, guestBatch) {
		if err := g.tally(ctx, batch, &stock, apart); err != nil {
			return stock, false, err
		}
	}
	args := []any{name}
	for nonce := range apart {
		args = append(args, nonce)
	}
	reply, err = g.db.Eval(ctx, g.scripts.guest.check, []string{k.row, k.folded, k.hold}, args...)
	if err != nil {
		return stock, false, err
	}
	n, err := redisdb.Integers(reply, len(args))
	if err != nil {
		return stock, false, err
	}
	for i, nonce := range args[1:] {
		if n[i+1] == 0 {
			for name, value := range pairs(apart[nonce.(string)]) { //nolint:forcetypeassert // put in above
				stock.Figures.add(name, value)
			}
		}
	}
	return stock, strconv.FormatInt(n[0], 10) == folds || n[0] == 0, nil
}

// tally adds what a batch of guests holds.
func (g *Guests) tally(ctx context.Context, ids []any, stock *GuestStock, apart map[string]any) error {
	answers := make([]*redis.Cmd, len(ids))
	g.db.Pipelined(ctx, g.scripts.guest.tally, func(call func([]string, ...any) *redis.Cmd) {
		for i, id := range ids {
			answers[i] = call(g.stockKeys(id))
		}
	})
	for _, answer := range answers {
		if answer.Err() != nil {
			return answer.Err()
		}
		n, err := redisdb.Integers(answer.Val(), 4)
		if err != nil {
			return err
		}
		list, _ := answer.Val().([]any)
		if len(list) != 6 {
			return fmt.Errorf("pool: a tally was answered %d values", len(list))
		}
		stock.Fresh += int(n[0])
		stock.Orders += int(n[1])
		stock.Bought += int(n[2])
		stock.Waiting += int(n[3])
		for name, value := range pairs(list[4]) {
			stock.Figures.add(name, value)
		}
		for name, value := range pairs(list[5]) {
			if name == nonceField {
				apart[value] = list[5]
			}
		}
	}
	return nil
}

// stockKeys are the first keys of the scripts that look at a guest.
func (g *Guests) stockKeys(id any) []string {
	name, _ := id.(string)
	k := g.keys(captcha.ID(name))
	return []string{k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.leases, k.spend, k.junk, k.retired, k.ended}
}
