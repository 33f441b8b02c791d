package pool

import (
	"context"
	"strings"

	"poold/internal/captcha"
)

// news passes changes of identities between the parts of a store, and between the replicas.
type news struct {
	*client

	wake    func(captcha.ID) // makes this replica's waiting callers ask again
	changed func(captcha.ID) // Options.OnChange
	ended   func(Ref, string)
}

// wakeWaiters makes the waiting callers of an identity ask again, and calls OnChange.
func (n *news) wakeWaiters(id captcha.ID) {
	n.wake(id)
	n.changed(id)
}

// listen passes on the messages of the channel until ctx ends: changes of identities, keys of
// claims, and ends of orders. A lost message costs little, because queues and leases poll.
func (n *news) listen(ctx context.Context) {
	n.db.Listen(ctx, func(message string) {
		id, rest, _ := strings.Cut(message, " ")
		n.wakeWaiters(captcha.ID(id))
		if order, how, ok := strings.Cut(rest, " "); ok {
			n.ended(Ref{Identity: captcha.ID(id), Order: order}, how)
		}
	})
}

// announce reports a change of an identity to this replica and to the others.
func (n *news) announce(ctx context.Context, id captcha.ID) {
	n.changed(id)
	n.db.Announce(ctx, string(id))
}
