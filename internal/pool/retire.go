package pool

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

const (
	// guestLook is how long a guest that holds something is left alone, at most.
	guestLook = time.Minute
	// guestLease is how long those that are due are left to the replica that took them:
	// within it their figures are added to the row, or another replica does so.
	guestLease = 10 * time.Second
	// nonceKept outlives a lease: who took a guest before its figures were forgotten
	// cannot add them a second time.
	nonceKept = 3 * guestLease
	// nonceApart outlives figures that are set apart, which Redis keeps for as long as
	// all that is known of an identity.
	nonceApart = kept + 24*time.Hour
)

// nonceField names figures that are set apart, among them.
const nonceField = "nonce"

// Retire looks once at each guest that is due: those that hold nothing any more are
// counted in the common row and forgotten. Identities that have a target by now are
// left to it, with all that is known of them. It ends when no more are due, or Redis
// does not answer.
func (g *Guests) Retire(ctx context.Context, hasTarget func(captcha.ID) bool) (retired int, err error) {
	for {
		due, err := g.due(ctx)
		if err != nil {
			return retired, err
		}
		for _, l := range due {
			l.leave = hasTarget(l.id)
		}
		err = errors.Join(g.look(ctx, due), g.fold(ctx, due), g.forget(ctx, due), g.release(ctx, due))
		for _, l := range due {
			if l.released && l.gone {
				retired++
			}
		}
		if err != nil || len(due) < guestBatch {
			return retired, err
		}
	}
}

// leaver is a guest that is due. What is not known of it by the end of a batch is found
// out by who takes it next.
type leaver struct {
	id     captcha.ID
	leased Moment // until then it is left to this replica

	leave   bool          // a target has it: it leaves the list as it is
	gone    bool          // nothing is left of it
	again   time.Duration // else: when it is to be looked at again
	nonce   string        // names its figures that are set apart; "" = there are none
	figures []any         // name, value, …
	folded  bool          // they are in the row
	free    bool          // it was looked at, and nothing is set apart of it any more

	released bool // off the list, or to be looked at again
}

// due takes a batch of guests.
func (g *Guests) due(ctx context.Context) ([]*leaver, error) {
	reply, err := g.run(ctx, g.scripts.guest.due, []string{g.guests().list}, guestBatch, guestLease.Milliseconds())
	if err != nil {
		return nil, err
	}
	now, err := integers(reply, 1)
	if err != nil {
		return nil, err
	}
	ids, _ := reply.([]any)
	due := make([]*leaver, 0, len(ids)-1)
	for _, id := range ids[1:] {
		name, _ := id.(string)
		due = append(due, &leaver{id: captcha.ID(name), leased: Moment(now[0]).After(guestLease)})
	}
	return due, nil
}

// look sees what the guests hold, and sets the figures of those apart that hold nothing.
func (g *Guests) look(ctx context.Context, due []*leaver) error {
	return g.each(ctx, g.scripts.guest.retire, due, func(l *leaver) (keys []string, args []any) {
		if l.leave {
			return nil, nil
		}
		k := g.keys(l.id)
		keys = append(g.stockKeys(string(l.id)), k.leads, k.verdicts, k.mind, k.paused, k.warm, k.warmers, k.status)
		return keys, []any{rand.Text(), guestLook.Milliseconds()}
	}, func(l *leaver, reply any) error {
		n, err := integers(reply, 1)
		if err != nil {
			return err
		}
		l.gone, l.again = n[0] < 0, time.Duration(n[0])*time.Millisecond
		for name, value := range pairs(reply.([]any)[1]) { //nolint:forcetypeassert // integers saw a list
			if name == nonceField {
				l.nonce = value
			} else {
				l.figures = append(l.figures, name, value)
			}
		}
		l.free = l.nonce == ""
		return nil
	})
}

// fold adds the figures that are set apart to the row.
func (g *Guests) fold(ctx context.Context, due []*leaver) error {
	k := g.guests()
	return g.each(ctx, g.scripts.guest.fold, due, func(l *leaver) (keys []string, args []any) {
		if l.nonce == "" {
			return nil, nil
		}
		return []string{k.row, k.folded, k.hold}, append([]any{l.nonce, int64(l.leased), nonceApart.Milliseconds()}, l.figures...)
	}, func(l *leaver, reply any) error {
		n, _ := reply.(int64)
		l.folded = n >= 0
		return nil
	})
}

// forget drops the figures that are in the row.
func (g *Guests) forget(ctx context.Context, due []*leaver) error {
	return g.each(ctx, g.scripts.guest.folded, due, func(l *leaver) (keys []string, args []any) {
		if !l.folded {
			return nil, nil
		}
		return []string{g.keys(l.id).retired}, []any{l.nonce}
	}, func(l *leaver, _ any) error {
		l.free = true
		return nil
	})
}

// release lets go of the guests, unless they were used meanwhile.
func (g *Guests) release(ctx context.Context, due []*leaver) error {
	k := g.guests()
	return g.each(ctx, g.scripts.guest.release, due, func(l *leaver) (keys []string, args []any) {
		if !l.free && !l.leave {
			return nil, nil
		}
		again := l.again.Milliseconds()
		if l.gone || l.leave {
			again = -1
		}
		return []string{k.list, k.folded}, []any{string(l.id), int64(l.leased), again, l.nonce, nonceKept.Milliseconds()}
	}, func(l *leaver, reply any) error {
		l.released = reply == int64(1)
		return nil
	})
}

// each runs one step of all guests in one exchange: for those for which ask names keys.
// An error is that of the first whose step has no answer.
func (g *Guests) each(ctx context.Context, script *redis.Script, due []*leaver,
	ask func(*leaver) (keys []string, args []any), answered func(*leaver, any) error,
) (err error) {
	calls := map[*leaver]*redis.Cmd{}
	g.pipelined(ctx, script, func(call func([]string, ...any) *redis.Cmd) {
		for _, l := range due {
			if keys, args := ask(l); keys != nil {
				calls[l] = call(keys, args...)
			}
		}
	})
	for l, call := range calls {
		failed := down(call.Err())
		if failed == nil {
			failed = answered(l, call.Val())
		}
		if err == nil {
			err = failed
		}
	}
	return err
}
