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
	// guestLook is the longest time between two looks at a guest.
	guestLook = time.Minute
	// guestLease is how long a due guest belongs to the replica that took it. Later another
	// replica adds its figures to the row.
	guestLease = 10 * time.Second
	// nonceKept outlives a lease, so that a replica that took a guest before its figures were
	// deleted cannot add them twice.
	nonceKept = 3 * guestLease
	// nonceApart outlives figures that are set apart, which live as long as an identity's keys.
	nonceApart = keyLife + 24*time.Hour
	// leftFor is how long a handed-over identity remains the target's, even if a replica with an
	// older file uses it as a guest. It is longer than such a use stays on the list.
	leftFor = 15 * time.Minute
	// leaveBatch limits the targets that one exchange looks up among the guests.
	leaveBatch = 1000
	// leaveTries: the first try may only add older figures to the row.
	leaveTries = 2
)

// Fields of figures that are set apart.
const (
	nonceField = "nonce" // names them
	leftField  = "left"  // a target has the identity
)

// HandOver hands guests over to new targets; call it before the targets are shown. The guests'
// figures so far join the common row. Later figures, and the tokens and orders, are the targets'.
// If Redis does not answer, Retire does the same later.
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

// Retire looks once at each due guest. The figures of an empty one join the common row, and the
// guest is deleted. A guest that has a target now is handed over, as by HandOver. Retire ends when
// no guest is due, or Redis does not answer.
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

// advance takes each guest as many steps towards its end as possible now.
func (g *Guests) advance(ctx context.Context, due []*dueGuest) error {
	return errors.Join(g.look(ctx, due), g.addToRow(ctx, due), g.deleteAdded(ctx, due), g.release(ctx, due))
}

// dueGuest is a guest that is due. The replica that takes it next repeats the steps that failed.
type dueGuest struct {
	id     captcha.ID
	leased RedisTime // until then it belongs to this replica

	handOver bool          // a target has it: it is handed over
	gone     bool          // nothing is left of it, or it is handed over
	again    time.Duration // else: when it is to be looked at again
	nonce    string        // names its figures that are set apart; "" = there are none
	figures  []any         // name, value, …
	added    bool          // they are in the row
	free     bool          // it was looked at, and nothing is set apart of it any more

	released bool // off the list, or to be looked at again
}

// due takes a batch of guests: the guests among the named identities or, without names, the
// guests that are due for a look.
func (g *Guests) due(ctx context.Context, of ...captcha.ID) ([]*dueGuest, error) {
	identities := make([]any, len(of))
	for i, id := range of {
		identities[i] = string(id)
	}
	r, err := g.call(ctx, "guest_due", g.guests(), args{"limit": guestBatch, "retry_ms": guestLease}, identities...)
	if err != nil {
		return nil, err
	}
	now, err := redisdb.Integers(r.List(), 1)
	if err != nil {
		return nil, err
	}
	due := make([]*dueGuest, 0, len(r.List())-1)
	for _, id := range r.List()[1:] {
		name, _ := id.(string)
		due = append(due, &dueGuest{id: captcha.ID(name), leased: RedisTime(now[0]).After(guestLease)})
	}
	return due, nil
}

// look sets the figures of empty and of handed-over guests apart.
func (g *Guests) look(ctx context.Context, due []*dueGuest) error {
	return errors.Join(
		g.each(ctx, "guest_retire", due, func(l *dueGuest) (keys any, a args, tail []any) {
			if l.handOver {
				return nil, nil, nil
			}
			return g.keys(l.id), args{"name": rand.Text(), "again_ms": guestLook}, nil
		}, func(l *dueGuest, answer any) error { return l.looked(g.script("guest_retire").Read(answer)) }),
		g.each(ctx, "guest_leave", due, func(l *dueGuest) (keys any, a args, tail []any) {
			if !l.handOver {
				return nil, nil, nil
			}
			return g.keys(l.id), args{"name": rand.Text()}, nil
		}, func(l *dueGuest, answer any) error { return l.looked(g.script("guest_leave").Read(answer)) }))
}

// looked reads the reply of guest_retire.lua and guest_leave.lua.
func (l *dueGuest) looked(r *redisdb.Reply) error {
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

// addToRow adds the figures that were set apart to the row.
func (g *Guests) addToRow(ctx context.Context, due []*dueGuest) error {
	return g.each(ctx, "guest_add", due, func(l *dueGuest) (keys any, a args, tail []any) {
		if l.nonce == "" {
			return nil, nil, nil
		}
		return g.guests(), args{"name": l.nonce, "not_after": l.leased, "known_ms": nonceApart}, l.figures
	}, func(l *dueGuest, reply any) error {
		n, _ := reply.(int64)
		l.added = n >= 0
		return nil
	})
}

// deleteAdded deletes the figures that are in the row.
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

// each runs one script for all guests for which ask returns keys, in one exchange. It returns
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
