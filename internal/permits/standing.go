package permits

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"

	"github.com/redis/go-redis/v9"
)

// MostRefusals is the number of refused submits in a row, over all replicas and targets, after
// which a provider gets one submit in 5 s.
const MostRefusals = 20

// standingKept is the life of a provider's standing after its last change.
const standingKept = 24 * time.Hour

// Fault is the reason why a provider is down, as the replicas share it.
type Fault struct {
	Kind   string        // "account" or "outage"
	Code   string        // of the provider, or a short one of poold's
	Reason string        // a sentence
	Action string        // the call that failed
	Since  time.Duration // age of the fault
	Next   time.Duration // until the next probe; below 0 = it is overdue
	Every  time.Duration // between two probes
	Polls  bool          // the provider still answers polls
}

// Standing is the state of a provider, over all replicas.
type Standing struct {
	Fault    *Fault // nil = it is up
	Refusals int    // submits in a row that it refused
}

// ReportFault notes that a provider is down.
func (s *Permits) ReportFault(ctx context.Context, provider string, f Fault) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("standing_report"), s.keys(provider), redisdb.Args{
		"kind": f.Kind, "code": f.Code, "reason": pool.CutReason(f.Reason), "action": f.Action,
		"next_ms": f.Next, "every_ms": f.Every, "polls": f.Polls, "ago_ms": f.Since,
	})
	return err
}

// ReportUp notes that a provider answered a call of this age which proves that it is up. It
// ends an older fault.
func (s *Permits) ReportUp(ctx context.Context, provider string, sent time.Duration) error {
	return s.ReportFault(ctx, provider, Fault{Since: sent})
}

// ReportRefusal counts a submit that the provider refused.
func (s *Permits) ReportRefusal(ctx context.Context, provider string) error {
	return s.setRefusals(ctx, provider, func(pipe redis.Pipeliner, key string) { pipe.HIncrBy(ctx, key, "refusals", 1) })
}

// ReportAccepted notes that the provider accepted a submit after it had refused some.
func (s *Permits) ReportAccepted(ctx context.Context, provider string) error {
	return s.setRefusals(ctx, provider, func(pipe redis.Pipeliner, key string) { pipe.HSet(ctx, key, "refusals", 0) })
}

func (s *Permits) setRefusals(ctx context.Context, provider string, set func(redis.Pipeliner, string)) error {
	pipe, key := s.db.Slow.Pipeline(), s.keys(provider).standing
	set(pipe, key)
	pipe.PExpire(ctx, key, standingKept)
	_, err := pipe.Exec(ctx)
	return err
}

// Standing returns the standing of a provider.
func (s *Permits) Standing(ctx context.Context, provider string) (Standing, error) {
	r, err := s.db.Call(ctx, scripts.Get("standing_read"), s.keys(provider), nil)
	if err != nil {
		return Standing{}, err
	}
	return readStanding(redisdb.HashOf(r.Items("fields")), int64(r.Int("now"))), r.Err
}

// ProbeNow allows the next order at a provider at once. It reports whether the provider was down, or
// bounded because of its refusals.
func (s *Permits) ProbeNow(ctx context.Context, provider string) (waited bool, err error) {
	n, err := s.db.CallNumber(ctx, scripts.Get("standing_probe"), s.keys(provider), nil)
	return n == 1, err
}

// ReleaseUnplaced returns the permit of an order that was not placed, and the probe that it took.
func (s *Permits) ReleaseUnplaced(ctx context.Context, provider string, order pool.Ref) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("release"), s.keys(provider), redisdb.Args{"order": order.String()})
	return err
}

// readStanding reads the hash that standing_read.lua replies; now is Redis' clock in Unix ms.
func readStanding(h redisdb.Hash, now int64) Standing {
	s := Standing{Refusals: int(h.Int("refusals"))}
	if h["kind"] != "" {
		age := time.Duration(now-h.Int("since")) * time.Millisecond
		s.Fault = &Fault{
			Kind: h["kind"], Code: h["code"], Reason: h["reason"], Action: h["action"], Polls: h["polls"] == "1",
			Since: max(0, age), Next: time.Duration(h.Int("next")-now) * time.Millisecond, Every: h.Duration("every"),
		}
	}
	return s
}
