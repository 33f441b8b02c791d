package pool

import (
	"context"
	"strings"
	"time"

	"poold/internal/captcha"
)

// news carries what happens to identities and to claims between the parts of a store,
// and between the replicas.
type news struct {
	*client

	wake    func(captcha.ID) // makes the waiters of this replica ask again
	changed func(captcha.ID) // Options.OnChange
	ended   func(Ref, string)
}

// wakeWaiters wakes the waiters of an identity in which there may be something for them.
func (n *news) wakeWaiters(id captcha.ID) {
	n.wake(id)
	n.changed(id)
}

// listen hears of the identities in which a token landed for a waiter, whose
// buying was paused or resumed, or whose windows changed, of claims whose solve ended or
// was let go, and of orders that ended elsewhere, and passes it on. Polling by the queues and the leases is the
// backstop, so a lost message costs little.
func (n *news) listen(ctx context.Context) {
	messages := n.slow.Subscribe(ctx, n.channel())
	defer func() { _ = messages.Close() }()
	again := time.NewTicker(reviewEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			// The right to listen may have been missing until now. Twice is once.
			_ = messages.Subscribe(ctx, n.channel())
		case message, ok := <-messages.Channel():
			if !ok {
				return
			}
			id, rest, _ := strings.Cut(message.Payload, " ")
			if id == "" {
				continue // a review's trial
			}
			n.wakeWaiters(captcha.ID(id))
			if order, how, ok := strings.Cut(rest, " "); ok {
				n.ended(Ref{Identity: captcha.ID(id), Order: order}, how)
			}
		}
	}
}

// announce tells all replicas, this one too, that something was done to an
// identity, or to a claim (by its key). What was done holds also where nobody can be told: to fail for that
// would make the caller do it again. Looks and polls find it out a little later.
func (n *news) announce(ctx context.Context, id captcha.ID) {
	n.changed(id)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := n.slow.Publish(ctx, n.channel(), string(id)).Err(); err != nil {
		n.log.DebugContext(ctx, "other replicas were not told of a change", "err", err) // review says why
	}
}
