package pgclaims

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
)

// setBack is the largest step back of the server's clock that the store tolerates. Package redisclaims
// has the same limit.
const setBack = 10 * time.Second

// row is a claim in the table. A key without a row is treated as a claim that ended at the zero time.
type row struct {
	now time.Time // the server's clock
	key string    // the primary key of the row, with the prefix

	solve    string
	fence    int64
	holder   string
	identity captcha.ID
	solution []byte // nil = there is no solution
	ends     time.Time
	leased   time.Time
	wanted   time.Time

	outcome []byte // digest of the end of the solve; nil = the solve has not ended

	failedSolve string
	failure     []byte
	failedUntil time.Time
}

// withPrefix puts the prefix of this installation before a key or a source.
func (c *Claims) withPrefix(text string) string { return c.o.Prefix + ":" + text }

// read reads the row of a key. The transaction must come from postgres.DB.Alone with this key.
func (c *Claims) read(ctx context.Context, tx postgres.Tx, key captcha.ID) (*row, error) {
	r := &row{key: c.withPrefix(string(key))}
	var identity string
	err := tx.First(ctx, []any{&r.now, &r.solve, &r.fence, &r.holder, &identity, &r.solution, &r.ends, &r.leased, &r.wanted,
		&r.outcome, &r.failedSolve, &r.failure, &r.failedUntil},
		`select clock_timestamp(), coalesce(solve, ''), coalesce(fence, 0), coalesce(holder, ''), coalesce(identity, ''), solution,
			coalesce(ends_at, to_timestamp(0)), coalesce(leased_until, to_timestamp(0)), coalesce(wanted_until, to_timestamp(0)),
			outcome, coalesce(failed_solve, ''), failure, coalesce(failed_until, to_timestamp(0))
		from (values (1)) always left join captcha_cache on key = $1`, r.key)
	r.identity = captcha.ID(identity)
	longest := c.o.Times.Longest
	if r.outcome != nil {
		longest = c.o.Times.Solved
	}
	r.ends = r.boundTime(r.ends, longest)
	r.leased = r.boundTime(r.leased, c.o.Times.Lease)
	r.wanted = r.boundTime(r.wanted, c.o.Times.Wanted)
	r.failedUntil = r.boundTime(r.failedUntil, c.o.Times.Failed)
	return r, err
}

// boundTime returns the time t. If t is more than `longest` in the future, it returns the zero time: t
// was written before the server's clock was set back, so the age of t is unknown. One possible
// cause is a failover to a server whose clock is behind.
func (r *row) boundTime(t time.Time, longest time.Duration) time.Time {
	if t.Sub(r.now) > longest+setBack {
		return time.Time{}
	}
	return t
}

// underWay reports whether the solve is in flight.
func (r *row) underWay() bool { return r.outcome == nil && r.ends.After(r.now) }

// shared reports whether the solve has ended with a token that callers can still share.
func (r *row) shared() bool { return r.solution != nil && r.ends.After(r.now) }

// heldBy reports whether the fence belongs to the holder. After its lease expires, the holder keeps the
// solve until another replica takes over.
func (r *row) heldBy(fence int64) bool { return r.fence == fence && r.underWay() }

// endedBy reports whether the holder with this fence ended the solve with the same end.
func (r *row) endedBy(fence int64, end dedup.ClaimEnd) bool {
	return r.fence == fence && bytes.Equal(r.outcome, digest(end))
}

// digest returns a hash that identifies an end. It lets End recognise a retried call even after the token
// is no longer shared.
func digest(end dedup.ClaimEnd) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %s", end.Failed, end.Value))
	return sum[:]
}

// heldClaim returns the claim as the holder gets it.
func (r *row) heldClaim() dedup.Claim {
	return dedup.Claim{State: dedup.ClaimHeld, Solve: r.solve, Fence: r.fence, Identity: r.identity, Left: r.ends.Sub(r.now)}
}

// endedClaim returns the claim for a caller whose solve ended without a token for the caller.
func (r *row) endedClaim(solve string) dedup.Claim {
	claim := dedup.Claim{State: dedup.ClaimError, Solve: solve}
	if r.failedSolve == solve && r.failedUntil.After(r.now) {
		claim.Value = r.failure
	}
	return claim
}
