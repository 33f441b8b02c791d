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
	nonceApart = kept + 24*time.Hour
	// leftFor is how long a handed-over identity stays the target's although a replica with an
	// older file uses it as a guest. It outlives such a use on the list.
	leftFor = 15 * time.Minute
	// leaveBatch limits the targets that one exchange looks up among the guests.
	leaveBatch = 1000
	// leaveTries: figures of an earlier time go first.
	leaveTries = 2
)

// Fields of figures that are set apart.
const (
	nonceField = "nonce" // names them
	leftField  = "left"  // a target has the identity
)

// Leave hands guests over to new targets before these are shown: their figures so far join the
// common row, and later ones are the targets'. Their tokens and orders become the targets', too.
// If Redis does not answer, Retire does the same later.
func (g *Guests) Leave(ctx context.Context, ids []captcha.ID) error {
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
				l.leave = true
			}
			if err := g.seeTo(ctx, guests); err != nil {
				return err
			}
		}
	}
	return nil
}

// Retire looks once at each due guest. The figures of an empty one join the common row, and the
// guest is deleted. A guest that has a target now is handed over, as by Leave. Retire ends when
// no guest is due, or Redis does not answer.
func (g *Guests) Retire(ctx context.Context, hasTarget func(captcha.ID) bool) (retired int, err error) {
	for {
		due, err := g.due(ctx)
		if err != nil {
			return retired, err
		}
		for _, l := range due {
			l.leave = hasTarget(l.id)
		}
		err = g.seeTo(ctx, due)
		for _, l := range due {
			if l.released && l.gone && !l.leave {
				retired++
			}
		}
		if err != nil || len(due) < guestBatch {
			return retired, err
		}
	}
}

// seeTo takes each guest as many steps towards its end as possible now.
func (g *Guests) seeTo(ctx context.Context, due []*leaver) error {
	return errors.Join(g.look(ctx, due), g.fold(ctx, due), g.forget(ctx, due), g.release(ctx, due))
}

// leaver is a due guest. The replica that takes it next repeats the steps that failed.
type leaver struct {
	id     captcha.ID
	leased Moment // until then it is left to this replica

	leave   bool          // a target has it: it is handed over
	gone    bool          // nothing is left of it, or it is handed over
	again   time.Duration // else: when it is to be looked at again
	nonce   string        // names its figures that are set apart; "" = there are none
	figures []any         // name, value, …
	folded  bool          // they are in the row
	free    bool          // it was looked at, and nothing is set apart of it any more

	released bool // off the list, or to be looked at again
}

// due takes a batch of guests: the ones among the named identities or, without names, the ones
// that are due for a look.
func (g *Guests) due(ctx context.Context, of ...captcha.ID) ([]*leaver, error) {
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
	due := make([]*leaver, 0, len(r.List())-1)
	for _, id := range r.List()[1:] {
		name, _ := id.(string)
		due = append(due, &leaver{id: captcha.ID(name), leased: Moment(now[0]).After(guestLease)})
	}
	return due, nil
}

// look sets the figures of empty and of handed-over guests apart.
func (g *Guests) look(ctx context.Context, due []*leaver) error {
	return errors.Join(
		g.each(ctx, "guest_retire", due, func(l *leaver) (keys any, a args, tail []any) {
			if l.leave {
				return nil, nil, nil
			}
			return g.keys(l.id), args{"name": rand.Text(), "again_ms": guestLook}, nil
		}, func(l *leaver, answer any) error { return l.looked(g.script("guest_retire").Read(answer)) }),
		g.each(ctx, "guest_leave", due, func(l *leaver) (keys any, a args, tail []any) {
			if !l.leave {
				return nil, nil, nil
			}
			return g.keys(l.id), args{"name": rand.Text()}, nil
		}, func(l *leaver, answer any) error { return l.looked(g.script("guest_leave").Read(answer)) }))
}

// looked reads the reply of guest_retire.lua and guest_leave.lua.
func (l *leaver) looked(r *redisdb.Reply) error {
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

// fold adds the figures that were set apart to the row.
func (g *Guests) fold(ctx context.Context, due []*leaver) error {
	return g.each(ctx, "guest_fold", due, func(l *leaver) (keys any, a args, tail []any) {
		if l.nonce == "" {
			return nil, nil, nil
		}
		return g.guests(), args{"name": l.nonce, "not_after": l.leased, "known_ms": nonceApart}, l.figures
	}, func(l *leaver, reply any) error {
		n, _ := reply.(int64)
		l.folded = n >= 0
		return nil
	})
}

// forget deletes the figures that are in the row.
func (g *Guests) forget(ctx context.Context, due []*leaver) error {
	return g.each(ctx, "guest_folded", due, func(l *leaver) (keys any, a args, tail []any) {
		if !l.folded {
			return nil, nil, nil
		}
		return g.keys(l.id), args{"name": l.nonce, "left_ms": leftFor}, nil
	}, func(l *leaver, _ any) error {
		l.free = true
		return nil
	})
}

// release ends the lease of each guest that was not used meanwhile.
func (g *Guests) release(ctx context.Context, due []*leaver) error {
	return g.each(ctx, "guest_release", due, func(l *leaver) (keys any, a args, tail []any) {
		if !l.free {
			return nil, nil, nil
		}
		again := l.again
		if l.gone {
			again = -time.Millisecond
		}
		return g.guests(), args{"identity": l.id, "due": l.leased, "again_ms": again, "name": l.nonce, "known_ms": nonceKept}, nil
	}, func(l *leaver, reply any) error {
		l.released = reply == int64(1)
		return nil
	})
}

// each runs one script for all guests for which ask returns keys, in one exchange. It returns
// the first error.
func (g *Guests) each(ctx context.Context, script string, due []*leaver,
	ask func(*leaver) (keys any, a args, tail []any), answered func(*leaver, any) error,
) (err error) {
	calls := map[*leaver]*redisdb.Answer{}
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
