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
	// guestLease is how long a due guest belongs to the replica that took it. Afterwards another
	// replica may take the guest and add its figures to the row.
	guestLease = 10 * time.Second
	// nonceKept is how long the nonce of deleted figures is remembered. It exceeds guestLease, so
	// that a replica that took the guest earlier cannot add the same figures again.
	nonceKept = 3 * guestLease
	// nonceApart is how long the nonce of figures that are set apart is remembered. It exceeds
	// keyLife, the life of these figures.
	nonceApart = keyLife + 24*time.Hour
	// leftFor is how long an identity counts as handed over to a target, even if a replica with an
	// older pools.yaml uses it as a guest. It exceeds the time that such a use stays on the list.
	leftFor = 15 * time.Minute
	// leaveBatch limits the identities that one exchange looks up in the list of guests.
	leaveBatch = 1000
	// leaveTries limits the attempts to hand over a guest. The first attempt may only add older
	// figures to the row.
	leaveTries = 2
)

// Fields in the hash of figures that are set apart.
const (
	nonceField = "nonce" // identifies the figures
	leftField  = "left"  // set if a target took over the identity
)

// HandOver hands guests over to new targets. It must be called before the targets are in use. The
// guests' figures so far are added to the common row. The tokens, the orders and later figures belong
// to the targets. If Redis fails, Retire hands the guests over later.
func (g *Guests) HandOver(ctx context.Context, ids []captcha.ID) error {
	for some := range slices.Chunk(ids, leaveBatch) {
		for range leaveTries {
			guests, err := g.due(ctx, some...)
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
// and deletes the guest. If the identity has a target now, Retire hands the guest over, as HandOver
// does. Retire returns when no guest is due, or if Redis fails.
func (g *Guests) Retire(ctx context.Context, hasTarget func(captcha.ID) bool) (retired int, err error) {
	for {
		due, err := g.due(ctx)
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

// advance executes those steps of retiring or handing over each guest that are possible now.
func (g *Guests) advance(ctx context.Context, due []*dueGuest) error {
	return errors.Join(g.setApart(ctx, due), g.addToRow(ctx, due), g.deleteAdded(ctx, due), g.release(ctx, due))
}

// dueGuest is a guest that is due for a check. If a step fails, the replica that takes the guest next
// repeats the step.
type dueGuest struct {
	id     captcha.ID
	leased RedisTime // end of this replica's lease of the guest

	handOver bool          // a target has the identity, so the guest is handed over
	gone     bool          // the guest is empty or handed over
	again    time.Duration // time until the next check of a guest that is not gone
	nonce    string        // identifies the figures that are set apart; "" = there are none
	figures  []any         // the figures that are set apart: name, value, …
	added    bool          // the figures are in the row
	free     bool          // the guest was checked, and no figures are set apart any more

	released bool // the guest is off the list, or the time of its next check is set
}

// due leases a batch of guests to this replica: those among the given identities or, without
// arguments, those that are due for a check.
func (g *Guests) due(ctx context.Context, of ...captcha.ID) ([]*dueGuest, error) {
	identities := make([]any, len(of))
	for i, id := range of {
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

// setApart sets apart the figures of guests that are empty or handed over.
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

// readApart parses the reply of guest_retire.lua or guest_leave.lua.
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

// addToRow adds the figures that are set apart to the row.
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

// deleteAdded deletes the figures that are set apart and were added to the row.
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

// each calls a script for each guest, in one exchange. The function ask returns the keys and the
// arguments of a call; nil keys skip the guest. The function answered gets each reply. The result is
// the first error.
func (g *Guests) each(ctx context.Context, script string, due []*dueGuest,
	ask func(*dueGuest) (keys any, a args, tail []any), answered func(*dueGuest, any) error,
) (err error) {
	calls := map[*dueGuest]*redisdb.Answer{}
	g.pipelined(ctx, script, func(call redisdb.Add) {
		for _, l := range due {
			if keys, a, tail := ask(l); keys != nil {
				calls[l] = call(keys, a, tail...)
			}
		}
	})
	for l, call := range calls {
		failed := call.Err()
		if failed == nil {
			failed = answered(l, call.Val())
		}
		if err == nil {
			err = failed
		}
	}
	return err
}
