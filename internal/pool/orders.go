package pool

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// Reserve takes a place at a provider for an order, over all replicas; the same
// order may ask again and has one place. ok is false where all are taken.
func (s *Store) Reserve(ctx context.Context, provider, order string, limit int, ttl time.Duration) (ok bool, inFlight int, err error) {
	reply, err := s.run(ctx, s.scripts.reserve, []string{s.places(provider)}, order, limit, ttl.Milliseconds())
	if err != nil {
		return false, 0, err
	}
	n, err := integers(reply, 2)
	if err != nil {
		return false, 0, err
	}
	return n[0] == 1, int(n[1]), nil
}

// Release gives a place back; it is no error if the order has none.
func (s *Store) Release(ctx context.Context, provider, order string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return down(s.slow.ZRem(ctx, s.places(provider), order).Err())
}

// InFlight counts the places taken at each provider. It judges by this
// process' clock, which is good enough to be looked at.
func (s *Store) InFlight(ctx context.Context, providers []string) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	from := strconv.FormatInt(time.Now().UnixMilli(), 10)
	counts := make([]int, len(providers))
	pipe := s.slow.Pipeline()
	answers := make([]*redis.IntCmd, len(providers))
	for i, provider := range providers {
		answers[i] = pipe.ZCount(ctx, s.places(provider), from, "+inf")
	}
	if len(providers) > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, down(err)
		}
	}
	for i := range answers {
		counts[i] = int(answers[i].Val())
	}
	return counts, nil
}

// Place creates an order beside the stock if the depth sentence allows it:
// outliving + orders - waiting < depth, judged in one script. The same order
// may be placed again and counts once. The Stock has no details.
func (s *Store) Place(ctx context.Context, o Order) (placed bool, stock Stock, err error) {
	k := s.keys(o.Identity)
	reply, err := s.run(ctx, s.scripts.place,
		[]string{k.tokens, k.orders, k.journal, k.tickets, k.seen, k.stats, k.paused},
		o.ID, o.Depth, o.Margin.Milliseconds(), o.Lead.Milliseconds(), o.TTL.Milliseconds(), o.Provider)
	if err != nil {
		return false, Stock{}, err
	}
	n, err := integers(reply, 7)
	if err != nil {
		return false, Stock{}, err
	}
	stock = stockOf(n[1:])
	stock.Paused = n[0] < 0
	return n[0] == 1, stock, nil
}

// Submitted writes the provider's task id beside the order.
func (s *Store) Submitted(ctx context.Context, id captcha.ID, order, task string) error {
	k := s.keys(id)
	_, err := s.run(ctx, s.scripts.submitted, []string{k.orders, k.journal}, order, task)
	return err
}

// Settle ends an order with its token: one script removes the order and puts
// the token into the stock. settled is false where that had happened before.
func (s *Store) Settle(ctx context.Context, l Landing) (settled bool, err error) {
	k := s.keys(l.Identity)
	reply, err := s.run(ctx, s.scripts.settle,
		[]string{k.tokens, k.orders, k.journal, k.tickets, k.stats, k.leads},
		l.Order, l.SincePlaced.Milliseconds(), l.Lifetime.Milliseconds(), l.Lead.Milliseconds(),
		elementTail(l), s.channel(), string(l.Identity))
	if err != nil {
		return false, err
	}
	s.wake(l.Identity)
	s.changed(l.Identity)
	return reply == int64(1), nil
}

// Fail ends an order without a token; counted says whether it was bought and so
// counts as failed. removed is false where the order was gone.
func (s *Store) Fail(ctx context.Context, id captcha.ID, order string, counted bool) (removed bool, err error) {
	k := s.keys(id)
	mark := "0"
	if counted {
		mark = "1"
	}
	reply, err := s.run(ctx, s.scripts.fail, []string{k.orders, k.journal, k.stats}, order, mark)
	if err != nil {
		return false, err
	}
	s.changed(id)
	return reply == int64(1), nil
}
