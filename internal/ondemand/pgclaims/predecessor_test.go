//go:build !race

package pgclaims

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
)

// predecessor is a replica of the version before claims and savings had a prefix, with the
// statements of that version. It may run beside replicas of this version while an operator
// replaces one replica after the other.
type predecessor struct{ *replica }

func (c *predecessor) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
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
	return claim, failed("entering a claim", err)
}

func (c *predecessor) enter(ctx context.Context, tx postgres.Tx, r *row, e dedup.ClaimEntry, call string) (dedup.Claim, error) {
	waits := e.Solve != ""
	left := r.ends.Sub(r.now)
	switch {
	case waits && (e.Solve != r.solve || !r.underWay() && !r.shared()):
		return r.over(e.Solve), nil
	case r.shared():
		source := dedup.SavedAfter
		if waits {
			source = dedup.SavedWaiting
		}
		claim := dedup.Claim{State: dedup.ClaimShared, Solve: r.solve, Identity: r.identity, Left: left, Value: r.solution}
		return claim, c.count(ctx, tx, source, e.Callers)
	case r.underWay() && r.holder == call: // an attempt of this call succeeded, and its answer was lost
		return r.held(), nil
	case r.underWay() && r.leased.After(r.now):
		_, err := tx.Exec(ctx, "update captcha_cache set wanted_until = $2 where key = $1", string(e.Key), r.now.Add(c.o.Times.Wanted))
		return dedup.Claim{State: dedup.ClaimSolving, Solve: r.solve, Identity: r.identity, Left: left}, err
	case r.underWay():
		r.fence++
		_, err := tx.Exec(ctx, "update captcha_cache set fence = $2, holder = $3, leased_until = $4 where key = $1",
			string(e.Key), r.fence, call, r.now.Add(c.o.Times.Lease))
		return r.held(), err
	default:
		// A fence is above those of a row that was deleted too, since it is not below the clock.
		r.solve, r.identity, r.fence, r.ends = call, e.Identity, max(r.fence+1, r.now.UnixMilli()), r.now.Add(c.o.Times.Longest)
		_, err := tx.Exec(ctx, `insert into captcha_cache as c
				(key, sitekey, pageurl, created_at, ends_at, kept_until, solve, fence, holder, identity, leased_until, wanted_until)
				values ($1, $2, $3, $4, $5, $5, $6, $7, $6, $8, $9, $4)
			on conflict (key) do update set sitekey = $2, pageurl = $3, created_at = $4, ends_at = $5, solve = $6, fence = $7,
				holder = $6, identity = $8, leased_until = $9, wanted_until = $4, solution = null, outcome = null,
				kept_until = greatest($5, c.failed_until)`,
			string(e.Key), e.Sitekey, e.Pageurl, r.now, r.ends, call, r.fence, string(e.Identity), r.now.Add(c.o.Times.Lease))
		return r.held(), err
	}
}

func (c *predecessor) Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error) {
	err = c.db.Alone(ctx, string(key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, key)
		mine, wanted = err == nil && r.heldBy(fence), false
		if !mine {
			return err
		}
		wanted = r.wanted.After(r.now)
		_, err = tx.Exec(ctx, "update captcha_cache set leased_until = $2, identity = $3 where key = $1",
			string(key), r.now.Add(c.o.Times.Lease), string(identity))
		return err
	})
	if err != nil {
		return false, false, failed("holding a claim", err)
	}
	return mine, wanted, nil
}

func (c *predecessor) LetGo(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error {
	return failed("letting a claim go", c.db.Alone(ctx, string(key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, key)
		if err != nil || !r.heldBy(fence) {
			return err
		}
		if _, err = tx.Exec(ctx, "update captcha_cache set leased_until = $2, identity = $3 where key = $1",
			string(key), r.now, string(identity)); err != nil {
			return err
		}
		return tx.Notify(ctx, channel, string(key))
	}))
}

func (c *predecessor) End(ctx context.Context, key captcha.ID, fence int64, end dedup.ClaimEnd) (ok bool, err error) {
	err = c.db.Alone(ctx, string(key), func(ctx context.Context, tx postgres.Tx) error {
		r, err := c.read(ctx, tx, key)
		if err != nil {
			return err
		}
		if !r.heldBy(fence) {
			ok = r.endedBy(fence, end)
			return nil
		}
		ends, kept := r.now, r.now.Add(c.o.Times.Solved) // later nobody repeats an End
		if end.Failed {
			_, err = tx.Exec(ctx, `update captcha_cache set ends_at = $2, kept_until = greatest($3::timestamptz, $4::timestamptz), outcome = $5,
				failed_solve = solve, failed_until = $4, failure = $6 where key = $1`,
				string(key), ends, kept, r.now.Add(c.o.Times.Failed), digest(end), given(end.Value))
		} else {
			ends = r.now.Add(min(end.Lasts, c.o.Times.Solved))
			_, err = tx.Exec(ctx, `update captcha_cache set ends_at = $2, kept_until = greatest($3, failed_until), outcome = $4,
				solution = $5 where key = $1`,
				string(key), ends, kept, digest(end), given(end.Value))
		}
		if err != nil {
			return err
		}
		ok = true
		return tx.Notify(ctx, channel, string(key))
	})
	if err != nil {
		return false, failed("ending a claim", err)
	}
	return ok, nil
}

func (c *predecessor) read(ctx context.Context, tx postgres.Tx, key captcha.ID) (*row, error) {
	r := &row{}
	var identity string
	err := tx.First(ctx, []any{&r.now, &r.solve, &r.fence, &r.holder, &identity, &r.solution, &r.ends, &r.leased, &r.wanted,
		&r.outcome, &r.failedSolve, &r.failure, &r.failedUntil},
		`select clock_timestamp(), coalesce(solve, ''), coalesce(fence, 0), coalesce(holder, ''), coalesce(identity, ''), solution,
			coalesce(ends_at, to_timestamp(0)), coalesce(leased_until, to_timestamp(0)), coalesce(wanted_until, to_timestamp(0)),
			outcome, coalesce(failed_solve, ''), failure, coalesce(failed_until, to_timestamp(0))
		from (values (1)) always left join captcha_cache on key = $1`, string(key))
	r.identity = captcha.ID(identity)
	longest := c.o.Times.Longest
	if r.outcome != nil {
		longest = c.o.Times.Solved
	}
	r.ends = r.bounded(r.ends, longest)
	r.leased = r.bounded(r.leased, c.o.Times.Lease)
	r.wanted = r.bounded(r.wanted, c.o.Times.Wanted)
	r.failedUntil = r.bounded(r.failedUntil, c.o.Times.Failed)
	return r, err
}

func (c *predecessor) Count(ctx context.Context, requests map[dedup.SavingsSource]int) error {
	return failed("counting savings", c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		// In one order on all replicas, so that none waits for another that waits for it.
		for _, source := range slices.Sorted(maps.Keys(requests)) {
			if err := c.count(ctx, tx, source, requests[source]); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (c *predecessor) count(ctx context.Context, tx postgres.Tx, source dedup.SavingsSource, requests int) error {
	if requests == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `insert into captcha_savings as s (day, source, requests) values (`+today+`, $1, $2)
		on conflict (day, source) do update set requests = s.requests + excluded.requests`, string(source), requests)
	return err
}

func (c *predecessor) Days(ctx context.Context) ([]dedup.SavingsDay, error) {
	var days []dedup.SavingsDay
	err := c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		days = nil
		var date, source string
		var requests int64
		return tx.Each(ctx, []any{&date, &source, &requests}, func() {
			if len(days) == 0 || days[len(days)-1].Date != date {
				days = append(days, dedup.SavingsDay{Date: date, BySource: map[dedup.SavingsSource]int64{}})
			}
			if source != "" {
				days[len(days)-1].BySource[dedup.SavingsSource(source)] = requests
			}
		}, `select to_char(`+today+` - ago, 'YYYY-MM-DD'), coalesce(source, ''), coalesce(requests, 0)
			from generate_series(0, $1::integer - 1) ago left join captcha_savings on day = `+today+` - ago order by ago`, keptDays)
	})
	if err != nil {
		return nil, failed("reading savings", err)
	}
	return days, nil
}
