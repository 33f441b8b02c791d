package pool

import (
	"context"
	"strings"

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
	n.db.Listen(ctx, func(message string) {
		id, rest, _ := strings.Cut(message, " ")
		n.wakeWaiters(captcha.ID(id))
		if order, how, ok := strings.Cut(rest, " "); ok {
			n.ended(Ref{Identity: captcha.ID(id), Order: order}, how)
		}
	})
}

// announce tells all replicas, this one too, that something was done to an
// identity, or to a claim (by its key). What was done holds also where nobody can be told: to fail for that
// would make the caller do it again. Looks and polls find it out a little later.
func (n *news) announce(ctx context.Context, id captcha.ID) {
	n.changed(id)
	n.db.Announce(ctx, string(id))
}
