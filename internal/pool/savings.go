package pool

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// SavingsSource is how a request to /solve ended: with a token of this source, or without a token.
type SavingsSource string

// The sources by which savings are counted.
const (
	SavedPool    SavingsSource = "pool"         // the token was ready in the stock
	SavedSolve   SavingsSource = "solve"        // the token was bought for the request
	SavedWaiting SavingsSource = "shared_wait"  // the request shared a solve in flight
	SavedAfter   SavingsSource = "shared_cache" // the request shared the token of a solve that had ended
	SavedReplay  SavingsSource = "replay"       // the request repeated an Idempotency-Key
	SavedMissed  SavingsSource = "missed"       // no token came before the time-out or before the caller hung up
	SavedRefused SavingsSource = "refused"      // the response said that no token can come
)

// SavingsDay counts the requests of one UTC day.
type SavingsDay struct {
	Date     string                  `json:"date"` // in the form 2006-01-02
	BySource map[SavingsSource]int64 `json:"by_source"`
}

// savingsDays is the number of UTC days whose savings are kept, with today.
const savingsDays = 7

// Save adds a request to the savings of the UTC day. If the answer is lost it may be counted twice.
func (p *Pool) Save(ctx context.Context, source SavingsSource) error {
	return p.plainly(ctx, func(ctx context.Context) error {
		now, err := p.db.Time(ctx).Result()
		if err != nil {
			return err
		}
		key := p.key("savings", now.UTC().Format(time.DateOnly))
		_, err = p.db.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HIncrBy(ctx, key, string(source), 1)
			return pipe.PExpire(ctx, key, savingsDays*24*time.Hour).Err()
		})
		return err
	})
}

// Savings returns the requests of the last seven UTC days, today first.
func (p *Pool) Savings(ctx context.Context) (days []SavingsDay, err error) {
	err = p.plainly(ctx, func(ctx context.Context) error {
		now, err := p.db.Time(ctx).Result()
		if err != nil {
			return err
		}
		pipe, found := p.db.Pipeline(), [savingsDays]*redis.MapStringStringCmd{}
		for i := range found {
			found[i] = pipe.HGetAll(ctx, p.key("savings", now.UTC().AddDate(0, 0, -i).Format(time.DateOnly)))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i := range found {
			day := SavingsDay{now.UTC().AddDate(0, 0, -i).Format(time.DateOnly), map[SavingsSource]int64{}}
			for source, n := range found[i].Val() {
				day.BySource[SavingsSource(source)], _ = strconv.ParseInt(n, 10, 64)
			}
			days = append(days, day)
		}
		return nil
	})
	return days, err
}
