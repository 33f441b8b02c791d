package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// guestLook is the maximum interval between two checks of a guest by Retire.
	guestLook = time.Minute
	// guestLease is how long a due guest belongs to the replica that leased it. After this time
	// another replica may lease the guest and add its figures to the row.
	guestLease = 10 * time.Second
	// nonceKept is how long Redis remembers the nonce of deleted figures. nonceKept exceeds
	// guestLease, so a replica with an older lease of the guest cannot add the same figures again.
	nonceKept = 3 * guestLease
	// nonceApart is how long Redis remembers the nonce of set-apart figures. nonceApart exceeds
	// keyLife, which is the life of these figures.
	nonceApart = keyLife + 24*time.Hour
	// leftFor is how long an identity counts as handed over to a target, even if a replica with an
	// older pools.yaml uses the identity as a guest. After such a use the identity stays on the
	// list of guests for a shorter time.
	leftFor = 15 * time.Minute
	// leaveBatch is the maximum number of identities that one exchange looks up in the list of
	// guests.
	leaveBatch = 1000
	// leaveTries is the maximum number of attempts to hand over a guest. If older figures are set
	// apart, the first attempt only adds these figures to the row.
	leaveTries = 2
)

// Fields in the hash of set-apart figures.
const (
	nonceField = "nonce" // identifies the figures
	leftField  = "left"  // exists if a target took over the identity
)

// HandOver hands guests over to new targets. HandOver must be called before the targets are in use.
// HandOver adds the guests' figures so far to the common row. The targets get the tokens, the orders
// and all later figures. If Redis fails, Retire hands the guests over later.
func (g *Guests) HandOver(ctx context.Context, ids []captcha.ID) error {
	for some := range slices.Chunk(ids, leaveBatch) {
		for range leaveTries {
			guests, err := g.leaseDue(ctx, some...)
			if err != nil {
				return err
			}
			if len(guests) == 0 {
				break
			}
			for _, l := range guests {
				l.handOver = true
			}
			if err := g.advance(ctx, guests); err != nil {
				return err
			}
		}
	}
	return nil
}

// Retire checks each due guest once. If a guest is empty, Retire adds its figures to the common row
// and deletes the guest. If a target has the identity now, Retire hands the guest over, as HandOver
// does. Retire returns when no guest is due, or if Redis fails.
func (g *Guests) Retire(ctx context.Context, hasTarget func(captcha.ID) bool) (retired int, err error) {
	for {
		due, err := g.leaseDue(ctx)
		if err != nil {
			return retired, err
		}
		for _, l := range due {
			l.handOver = hasTarget(l.id)
		}
		err = g.advance(ctx, due)
		for _, l := range due {
			if l.released && l.gone && !l.handOver {
				retired++
			}
		}
		if err != nil || len(due) < guestBatch {
			return retired, err
		}
	}
}

// advance takes all currently possible steps to retire guests and to hand guests over.
func (g *Guests) advance(ctx context.Context, due []*dueGuest) error {
	return errors.Join(g.setApart(ctx, due), g.addToRow(ctx, due), g.deleteAdded(ctx, due), g.release(ctx, due))
}

// dueGuest is a guest that is due for a check. If a step fails, the next replica that leases the
// guest repeats the step.
type dueGuest struct {
	id     captcha.ID
	leased RedisTime // end of this replica's lease of the guest

	handOver bool          // whether a target has the identity, so that the guest is handed over
	gone     bool          // whether the guest is empty or handed over
	again    time.Duration // time until the next check; unused if gone is set
	nonce    string        // nonce of the set-apart figures; "" = there are none
	figures  []any         // the set-apart figures: name, value, …
	added    bool          // whether the row contains the figures
	free     bool          // whether the guest was checked and has no set-apart figures left

	released bool // whether the guest is off the list or the time of its next check is set
}

// leaseDue leases a batch of guests to this replica. Without ids, it leases guests that are due for a
// check. With ids, it leases those of the given identities that are guests.
func (g *Guests) leaseDue(ctx context.Context, ids ...captcha.ID) ([]*dueGuest, error) {
	identities := make([]any, len(ids))
	for i, id := range ids {
		identities[i] = string(id)
	}
	r, err := g.call(ctx, "guest_due", g.guests(), args{"limit": guestBatch, "retry_ms": guestLease}, identities...)
	if err != nil {
		return nil, err
	}
	now, taken := RedisTime(r.Int("now")), r.Items("identities")
	due := make([]*dueGuest, 0, len(taken))
	for _, id := range taken {
		name, _ := id.(string)
		due = append(due, &dueGuest{id: captcha.ID(name), leased: now.After(guestLease)})
	}
	return due, r.Err
}

// setApart sets apart the figures of empty and handed-over guests.
func (g *Guests) setApart(ctx context.Context, due []*dueGuest) error {
	return errors.Join(
		g.each(ctx, "guest_retire", due, func(l *dueGuest) (keys any, a args, tail []any) {
			if l.handOver {
				return nil, nil, nil
			}
			return g.keys(l.id), args{"name": rand.Text(), "again_ms": guestLook}, nil
		}, func(l *dueGuest, answer any) error { return l.readApart(g.script("guest_retire").Read(answer)) }),
		g.each(ctx, "guest_leave", due, func(l *dueGuest) (keys any, a args, tail []any) {
			if !l.handOver {
				return nil, nil, nil
			}
			return g.keys(l.id), args{"name": rand.Text()}, nil
		}, func(l *dueGuest, answer any) error { return l.readApart(g.script("guest_leave").Read(answer)) }))
}

func (l *dueGuest) readApart(r *redisdb.Reply) error {
	outcome, figures := r.Duration("outcome"), r.Items("figures")
	if r.Err != nil {
		return r.Err
	}
	l.gone, l.again = outcome < 0, outcome
	for name, value := range redisdb.Pairs(figures) {
		switch name {
		case nonceField:
			l.nonce = value
		case leftField:
		default:
			l.figures = append(l.figures, name, value)
		}
	}
	l.free = l.nonce == ""
	return nil
}

func (g *Guests) addToRow(ctx context.Context, due []*dueGuest) error {
	return g.each(ctx, "guest_add", due, func(l *dueGuest) (keys any, a args, tail []any) {
		if l.nonce == "" {
			return nil, nil, nil
		}
		return g.guests(), args{"name": l.nonce, "not_after": l.leased, "known_ms": nonceApart}, l.figures
	}, func(l *dueGuest, reply any) error {
		n, is := reply.(int64)
		l.added = is && n >= 0
		return nil
	})
}

func (g *Guests) deleteAdded(ctx context.Context, due []*dueGuest) error {
	return g.each(ctx, "guest_delete", due, func(l *dueGuest) (keys any, a args, tail []any) {
		if !l.added {
			return nil, nil, nil
		}
		return g.keys(l.id), args{"name": l.nonce, "left_ms": leftFor}, nil
	}, func(l *dueGuest, _ any) error {
		l.free = true
		return nil
	})
}

// release ends the lease of each guest that was not used meanwhile.
func (g *Guests) release(ctx context.Context, due []*dueGuest) error {
	return g.each(ctx, "guest_release", due, func(l *dueGuest) (keys any, a args, tail []any) {
		if !l.free {
			return nil, nil, nil
		}
		again := l.again
		if l.gone {
			again = -time.Millisecond
		}
		return g.guests(), args{"identity": l.id, "due": l.leased, "again_ms": again, "name": l.nonce, "known_ms": nonceKept}, nil
	}, func(l *dueGuest, reply any) error {
		l.released = reply == int64(1)
		return nil
	})
}

// each calls a script for each guest, in one exchange. The function buildCall returns
// the keys and the arguments of a call. If the keys are nil, the guest is skipped. The function
// onReply gets each reply. The result is the first error.
func (g *Guests) each(ctx context.Context, script string, due []*dueGuest,
	buildCall func(*dueGuest) (keys any, a args, tail []any), onReply func(*dueGuest, any) error,
) (err error) {
	calls := map[*dueGuest]*redisdb.Answer{}
	g.pipelined(ctx, script, func(call redisdb.Add) {
		for _, l := range due {
			if keys, a, tail := buildCall(l); keys != nil {
				calls[l] = call(keys, a, tail...)
			}
		}
	})
	for l, call := range calls {
		failed := call.Err()
		if failed == nil {
			failed = onReply(l, call.Val())
		}
		if err == nil {
			err = failed
		}
	}
	return err
}
