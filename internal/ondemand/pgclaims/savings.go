package pgclaims

import (
	"context"
	"maps"
	"slices"
	"strings"

	"poold/internal/ondemand/dedup"
	"poold/internal/postgres"
)

// keptDays is the number of UTC days whose counts are kept, including today.
const keptDays = 7

// today is an SQL expression: the UTC date of the server's clock when the transaction began.
const today = "(now() at time zone 'UTC')::date"

// Count adds requests to today's counts. If the connection breaks during the commit, the requests may
// be counted twice.
func (c *Claims) Count(ctx context.Context, requests map[dedup.SavingsSource]int) error {
	return wrapError("counting savings", c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		// All replicas lock the rows in the same order, so they cannot deadlock.
		for _, source := range slices.Sorted(maps.Keys(requests)) {
			if err := c.count(ctx, tx, source, requests[source]); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (c *Claims) count(ctx context.Context, tx postgres.Tx, source dedup.SavingsSource, requests int) error {
	if requests == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `insert into captcha_savings as s (day, source, requests, prefix)
			values (`+today+`, $1, $2, $3)
		on conflict (day, source) do update set requests = s.requests + excluded.requests`,
		c.withPrefix(string(source)), requests, c.o.Prefix)
	return err
}

// Days reads the counts of the last seven days, today first, including days without requests.
func (c *Claims) Days(ctx context.Context) ([]dedup.SavingsDay, error) {
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
				days[len(days)-1].BySource[dedup.SavingsSource(strings.TrimPrefix(source, c.withPrefix("")))] = requests
			}
		}, `select to_char(`+today+` - ago, 'YYYY-MM-DD'), coalesce(source, ''), coalesce(requests, 0)
			from generate_series(0, $1::integer - 1) ago left join captcha_savings on day = `+today+` - ago and prefix = $2
			order by ago`, keptDays, c.o.Prefix)
	})
	if err != nil {
		return nil, wrapError("reading savings", err)
	}
	return days, nil
}
