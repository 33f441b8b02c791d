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
	// guestUnused is the time after the last GuestUse.Wait until a guest is due for a look.
	guestUnused = time.Minute
	// guestBatch limits the guests of one exchange.
	guestBatch = 128
	// surveyTries limits the tries of a survey while guests retire. During the last try no
	// replica adds figures to the common row, for surveyHold at most.
	surveyTries = 4
	surveyHold  = 10 * time.Second
)

// errRestless: guests retired during each try of a survey.
var errRestless = errors.New("pool: guests retired during every try of a survey; ask again")

// Guests are the requested identities without a target. All replicas share them. After the last
// token and order of a guest its figures join one common row. It is safe for concurrent use.
type Guests struct {
	*client

	most int // mostGuests, but in tests
}

// GuestUse describes one use of a guest and the limits on all uses.
type GuestUse struct {
	// Wait is how long the caller may wait, and how long its token may be returned.
	Wait time.Duration
	// Rate limits the uses of all guests within any RatePer, over all replicas; 0 = no limit.
	Rate    int
	RatePer time.Duration
}

// Use notes a request for a guest. It must precede any other use of the guest; before a report on
// its token, call it with a zero GuestUse. It fails with a *RateError above the rate, and with an
// *EmptyError with Full if there are 100,000 other guests.
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

// Count adds requests for guests that never reach the stock: refused requests, and replays of
// callers that joined a wait. After an error it is unknown whether they were counted.
func (g *Guests) Count(ctx context.Context, refused, replays int) error {
	k := g.guests()
	k.mark += rand.Text()
	_, err := g.callNumber(ctx, "guest_count", k, nil, "requests", refused, "refused", refused, "replays", replays)
	return err
}

// GuestStock is the stock of all guests together.
type GuestStock struct {
	Guests  int // guests with requests, tokens or orders
	Fresh   int // tokens that have not expired; the margin is ignored
	Orders  int // orders in flight
	Bought  int // orders that count as bought
	Waiting int // live tickets
	// Figures sum up all guests, former ones included. They balance like the figures of one
	// identity: tokens and orders that targets took over count as Discarded.
	Figures Figures
}

// Survey returns the stock of all guests. Its counters never decrease from one call to the next.
// It fails if any part is unknown.
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

// survey counts once; settled is false if a guest's figures were added to the row meanwhile, so
// that they are missing or counted twice. No replica adds figures for hold.
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
	apart := map[string][]any{} // figures that may be in the row by now, by nonce
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
	n, err := redisdb.Integers(r.List(), 1+len(nonces))
	if err != nil {
		return stock, false, err
	}
	for i, nonce := range nonces {
		if n[i+1] == 0 {
			for name, value := range redisdb.Pairs(apart[nonce.(string)]) { //nolint:forcetypeassert // put in above
				stock.Figures.add(name, value)
			}
		}
	}
	return stock, strconv.FormatInt(n[0], 10) == folds || n[0] == 0, nil
}

// tally adds the stock of a batch of guests.
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
