package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// mostGuests limits the number of guests.
	mostGuests = 100_000
	// guestUnused is the time from the end of the last GuestUse.Wait until Retire checks the guest.
	guestUnused = time.Minute
	// guestBatch is the maximum number of guests in one exchange.
	guestBatch = 128
	// surveyTries is the maximum number of attempts of one Survey. An attempt fails if a guest retires
	// meanwhile. During the last attempt, no replica may add figures to the common row. This ban
	// ends after surveyHold at the latest.
	surveyTries = 4
	surveyHold  = 10 * time.Second
)

// errRestless means that a guest retired during each attempt of a survey.
var errRestless = errors.New("pool: guests retired during every try of a survey; ask again")

// Guests keeps the identities that callers request and that have no target. All replicas share
// them. After the last token and order of a guest have ended, its figures are added to the common
// row of all guests. Guests is safe for concurrent use.
type Guests struct {
	*client

	most int // maximum number of guests; always mostGuests except in tests
}

// GuestUse describes one use of a guest and the limits on all uses.
type GuestUse struct {
	// Wait is the time in which the caller may wait for its token or return the token.
	Wait time.Duration
	// Rate limits the uses of all guests within any RatePer, over all replicas; 0 = no limit.
	Rate    int
	RatePer time.Duration
}

// Use records a request for a guest. Use must be called before any other method for this guest.
// For a report on a token, the GuestUse must be zero. Use fails with a *RateError if the rate is
// exceeded. If there are 100,000 other guests, Use fails with an *EmptyError that has Full set.
func (g *Guests) Use(ctx context.Context, id captcha.ID, u GuestUse) error {
	r, err := g.call(ctx, "guest_use", g.guests(), args{
		"identity": id, "due_ms": u.Wait + guestUnused, "limit": g.most, "rate": u.Rate, "rate_per_ms": u.RatePer,
	})
	if err != nil {
		return err
	}
	switch outcome, wait := r.Int("outcome"), r.Duration("wait_ms"); {
	case r.Err != nil:
		return r.Err
	case outcome == 0:
		return &RateError{RetryAfter: wait}
	case outcome < 0:
		return &EmptyError{Full: true}
	}
	return nil
}

// Count counts requests for guests that do not lead to a call of Take: refused requests, and
// replays to callers that joined another caller's wait. After an error, the requests may or may not
// be counted.
func (g *Guests) Count(ctx context.Context, refused, replays int) error {
	k := g.guests()
	k.mark += rand.Text()
	_, err := g.callNumber(ctx, "guest_count", k, nil, "requests", refused, "refused", refused, "replays", replays)
	return err
}

// GuestStock is the sum of all guests.
type GuestStock struct {
	Guests  int // guests with requests, tokens or orders
	Fresh   int // tokens that have not expired; no margin is subtracted
	Orders  int // orders in flight
	Bought  int // orders that count as bought
	Waiting int // tickets of pending callers
	// Figures is the sum over all guests, including former guests. The equation in the comment of the
	// type Figures also holds here, because tokens and orders that targets took over count as
	// Discarded.
	Figures Figures
}

// Survey returns the totals over all guests. The counters never decrease from one call to the next.
// Survey fails if the figures of any guest are unknown.
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

// survey makes one attempt. The result settled is false if figures of a guest were added to the row
// meanwhile, because the totals then contain these figures twice or not at all. If the argument
// hold is above 0, no replica adds figures to the row for this duration.
func (g *Guests) survey(ctx context.Context, hold time.Duration) (stock GuestStock, settled bool, err error) {
	k, name := g.guests(), rand.Text()
	r, err := g.call(ctx, "guest_row", k, args{"survey": name, "hold_ms": hold})
	if err != nil {
		return stock, false, err
	}
	row, ids := r.Items("row"), r.Items("identities")
	if r.Err != nil {
		return stock, false, r.Err
	}
	var folds string
	for name, value := range redisdb.Pairs(row) {
		if name == "folds" {
			folds = value
		}
		stock.Figures.add(name, value)
	}
	stock.Guests = len(ids)
	apart := map[string][]any{} // nonce -> figures that may have been added to the row meanwhile
	for batch := range slices.Chunk(ids, guestBatch) {
		if err := g.tally(ctx, batch, &stock, apart); err != nil {
			return stock, false, err
		}
	}
	var nonces []any
	for nonce := range apart {
		nonces = append(nonces, nonce)
	}
	r, err = g.call(ctx, "guest_check", k, args{"survey": name}, nonces...)
	if err != nil {
		return stock, false, err
	}
	folded, added := r.Int("folds"), r.Integers("added")
	for i, nonce := range nonces {
		if i < len(added) && added[i] == 0 {
			for name, value := range redisdb.Pairs(apart[nonce.(string)]) { //nolint:forcetypeassert // put in above
				stock.Figures.add(name, value)
			}
		}
	}
	return stock, strconv.Itoa(folded) == folds || folded == 0, r.Err
}

// tally adds the totals of a batch of guests to the argument stock. It puts the guests' set-apart
// figures into the argument apart.
func (g *Guests) tally(ctx context.Context, ids []any, stock *GuestStock, apart map[string][]any) error {
	answers := make([]*redisdb.Answer, len(ids))
	g.pipelined(ctx, "guest_tally", func(call redisdb.Add) {
		for i, id := range ids {
			name, _ := id.(string)
			answers[i] = call(g.keys(captcha.ID(name)), nil)
		}
	})
	for _, answer := range answers {
		if answer.Err() != nil {
			return answer.Err()
		}
		r := g.script("guest_tally").Read(answer.Val())
		stock.Fresh += r.Int("tokens")
		stock.Orders += r.Int("orders")
		stock.Bought += r.Int("bought")
		stock.Waiting += r.Int("waiting")
		for name, value := range redisdb.Pairs(r.Items("figures")) {
			stock.Figures.add(name, value)
		}
		setApart := r.Items("apart")
		for name, value := range redisdb.Pairs(setApart) {
			if name == nonceField {
				apart[value] = setApart
			}
		}
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
