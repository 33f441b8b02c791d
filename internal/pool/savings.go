package pool

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// SavingsSource says where the token of a request to /solve came from, or that the request got none.
type SavingsSource string

// The sources by which savings are counted.
const (
	SavedPool        SavingsSource = "pool"         // the token was ready in the stock
	SavedSolve       SavingsSource = "solve"        // the token was bought for the request
	SavedSharedWait  SavingsSource = "shared_wait"  // the request shared a solve in flight
	SavedSharedCache SavingsSource = "shared_cache" // the request shared the token of a solve that had ended
	SavedReplay      SavingsSource = "replay"       // the request repeated an Idempotency-Key
	SavedMissed      SavingsSource = "missed"       // no token came before the timeout or before the caller hung up
	SavedDenied      SavingsSource = "denied"       // the response said that no token can come
)

// SavingsDay counts the requests of one UTC day.
type SavingsDay struct {
	Date     string                  `json:"date"` // in the form 2006-01-02
	BySource map[SavingsSource]int64 `json:"by_source"`
}

// savingsDays is the number of UTC days whose savings are kept, including today.
const savingsDays = 7

// Save counts a request in the savings of the present UTC day. If Redis' reply is lost, the request may be counted
// twice.
func (p *Pool) Save(ctx context.Context, source SavingsSource) error {
	now, err := p.now(ctx)
	if err != nil {
		return err
	}
	return p.pipelined(ctx, func(pipe redis.Pipeliner) {
		key := p.key("savings", savingsDate(now, 0))
		pipe.HIncrBy(ctx, key, string(source), 1)
		pipe.PExpire(ctx, key, savingsDays*24*time.Hour)
	})
}

func savingsDate(now time.Time, daysAgo int) string {
	return now.UTC().AddDate(0, 0, -daysAgo).Format(time.DateOnly)
}
