package pgclaims

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
	"poold/internal/redisdb"
)

// channel is the notification channel for the keys of solves that ended or were released.
const channel = "poold_claims"

// Options are the options of New.
type Options struct {
	// Prefix names the installation. Other installations in the same database do not see its claims.
	Prefix string
	// Wake is called with the key of each solve that any replica ended or released. It must not block.
	Wake func(key captcha.ID)

	Times dedup.ClaimTimes
	Clean time.Duration // interval between two deletions of ended claims; 0 = 5 s
}

// Claims contains the claims and the savings of one database. It is safe for concurrent use.
type Claims struct {
	db *postgres.DB
	o  Options
}

// New returns the claim store of a database. Claims.Run calls postgres.DB.Run, so the caller must not
// call postgres.DB.Run.
func New(db *postgres.DB, o Options) *Claims {
	o.Times = o.Times.OrDefault()
	o.Clean = cmp.Or(o.Clean, 5*time.Second)
	return &Claims{db, o}
}

// downError is an error for which errors.Is reports both postgres.ErrDown and redisdb.ErrDown.
type downError struct{ error }

func (e downError) Is(target error) bool { return target == redisdb.ErrDown }

func (e downError) Unwrap() error { return e.error }

// Reason implements redisdb.Reason. It returns the whole error text, which quotes no text of the server.
func (e downError) Reason() string { return e.Error() }

// wrapError adds the name of the operation to an error.
func wrapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	if errors.Is(err, postgres.ErrDown) {
		return downError{err}
	}
	return err
}

// Enter returns the state of the solve of a key. A replica that gets ClaimHeld must solve.
func (c *Claims) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	var claim dedup.Claim
	call := rand.Text()
	err := c.db.Alone(ctx, string(e.Key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, e.Key)
		if err != nil {
			return err
		}
		claim, err = c.enter(ctx, tx, r, e, call)
		return err
	})
	return claim, wrapError("entering a claim", err)
}

// enter decides the result of Enter from the row of the key, and changes the row. The argument call is
// a random name for the call of Enter. If a call is retried, all its attempts have the same name.
func (c *Claims) enter(ctx context.Context, tx postgres.Tx, r *row, e dedup.ClaimEntry, call string) (dedup.Claim, error) {
	waits := e.Solve != ""
	left := r.ends.Sub(r.now)
	switch {
	case waits && (e.Solve != r.solve || !r.underWay() && !r.shared()):
		return r.endedClaim(e.Solve), nil
	case r.shared():
		source := dedup.SavedAfter
		if waits {
			source = dedup.SavedWaiting
		}
		claim := dedup.Claim{State: dedup.ClaimShared, Solve: r.solve, Identity: r.identity, Left: left, Value: r.solution}
		return claim, c.count(ctx, tx, source, e.Callers)
	case r.underWay() && r.holder == call: // an earlier attempt of this call succeeded, and its reply was lost
		return r.heldClaim(), nil
	case r.underWay() && r.leased.After(r.now):
		_, err := tx.Exec(ctx, "update captcha_cache set wanted_until = $2 where key = $1", r.key, r.now.Add(c.o.Times.Wanted))
		return dedup.Claim{State: dedup.ClaimSolving, Solve: r.solve, Identity: r.identity, Left: left}, err
	case r.underWay():
		r.fence++
		_, err := tx.Exec(ctx, "update captcha_cache set fence = $2, holder = $3, leased_until = $4 where key = $1",
			r.key, r.fence, call, r.now.Add(c.o.Times.Lease))
		return r.heldClaim(), err
	default:
		// The clock is a lower bound for the fence. The fence therefore exceeds every fence of a
		// deleted row of this key.
		r.solve, r.identity, r.fence, r.ends = call, e.Identity, max(r.fence+1, r.now.UnixMilli()), r.now.Add(c.o.Times.Longest)
		_, err := tx.Exec(ctx, `insert into captcha_cache as c
				(key, sitekey, pageurl, created_at, ends_at, kept_until, solve, fence, holder, identity, leased_until, wanted_until, prefix)
				values ($1, $2, $3, $4, $5, $5, $6, $7, $6, $8, $9, $4, $10)
			on conflict (key) do update set sitekey = $2, pageurl = $3, created_at = $4, ends_at = $5, solve = $6, fence = $7,
				holder = $6, identity = $8, leased_until = $9, wanted_until = $4, solution = null, outcome = null,
				kept_until = greatest($5, c.failed_until)`,
			r.key, e.Sitekey, e.Pageurl, r.now, r.ends, call, r.fence, string(e.Identity), r.now.Add(c.o.Times.Lease), c.o.Prefix)
		return r.heldClaim(), err
	}
}

// Hold renews the lease of a solve and records the identity from whose stock the holder takes. Its
// result `mine` reports whether the solve is in flight and this replica still holds the claim. Its
// result `wanted` reports whether a replica waits for the solve.
func (c *Claims) Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error) {
	err = c.db.Alone(ctx, string(key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, key)
		mine, wanted = err == nil && r.heldBy(fence), false
		if !mine {
			return err
		}
		wanted = r.wanted.After(r.now)
		_, err = tx.Exec(ctx, "update captcha_cache set leased_until = $2, identity = $3 where key = $1",
			r.key, r.now.Add(c.o.Times.Lease), string(identity))
		return err
	})
	if err != nil {
		return false, false, wrapError("holding a claim", err)
	}
	return mine, wanted, nil
}

// Release ends the lease of a solve that this replica holds. The next caller of Enter continues the
// solve. If another replica holds the solve, Release does nothing.
func (c *Claims) Release(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error {
	return wrapError("letting a claim go", c.db.Alone(ctx, string(key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, key)
		if err != nil || !r.heldBy(fence) {
			return err
		}
		if _, err = tx.Exec(ctx, "update captcha_cache set leased_until = $2, identity = $3 where key = $1",
			r.key, r.now, string(identity)); err != nil {
			return err
		}
		return tx.Notify(ctx, channel, string(key))
	}))
}

// End ends a solve and wakes the replicas that wait for the solve. The result ok is true if this call
// ended the solve. It is also true if an earlier call with the same fence and the same end ended the
// solve.
func (c *Claims) End(ctx context.Context, key captcha.ID, fence int64, end dedup.ClaimEnd) (ok bool, err error) {
	err = c.db.Alone(ctx, string(key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, key)
		if err != nil {
			return err
		}
		if !r.heldBy(fence) {
			ok = r.endedBy(fence, end)
			return nil
		}
		ends, kept := r.now, r.now.Add(c.o.Times.Solved) // no caller repeats End after the time in kept
		if end.Failed {
			_, err = tx.Exec(ctx, `update captcha_cache set ends_at = $2, kept_until = greatest($3::timestamptz, $4::timestamptz), outcome = $5,
				failed_solve = solve, failed_until = $4, failure = $6 where key = $1`,
				r.key, ends, kept, r.now.Add(c.o.Times.Failed), digest(end), nonNil(end.Value))
		} else {
			ends = r.now.Add(min(end.Lasts, c.o.Times.Solved))
			_, err = tx.Exec(ctx, `update captcha_cache set ends_at = $2, kept_until = greatest($3, failed_until), outcome = $4,
				solution = $5 where key = $1`,
				r.key, ends, kept, digest(end), nonNil(end.Value))
		}
		if err != nil {
			return err
		}
		ok = true
		return tx.Notify(ctx, channel, string(key))
	})
	if err != nil {
		return false, wrapError("ending a claim", err)
	}
	return ok, nil
}

// nonNil returns an empty slice for a nil value, because SQL's null stands for a missing value.
func nonNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
