package permits

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"

	"github.com/redis/go-redis/v9"
)

// MostRefusals is the number of refused submits in a row, over all replicas and targets, after which
// replicas send the provider only one submit in 5 s.
const MostRefusals = 20

// standingKept is how long Redis keeps a provider's standing after the last change.
const standingKept = 24 * time.Hour

// Fault says why a provider is down. All replicas share the fault.
type Fault struct {
	Kind   string        // "account" or "outage"
	Code   string        // error code of the provider, or a short code of poold
	Reason string        // the reason as a sentence
	Action string        // the call that failed
	Since  time.Duration // age of the fault
	Next   time.Duration // time until the next probe; below 0 = the probe is overdue
	Every  time.Duration // interval between two probes
	Polls  bool          // whether the provider still answers polls
}

// Standing is the state of a provider, over all replicas.
type Standing struct {
	Fault    *Fault // why the provider is down; nil = it is up
	Refusals int    // submits that the provider refused in a row
}

// ReportFault records that a provider is down.
func (s *Permits) ReportFault(ctx context.Context, provider string, f Fault) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("standing_report"), s.keys(provider), redisdb.Args{
		"kind": f.Kind, "code": f.Code, "reason": pool.CutReason(f.Reason), "action": f.Action,
		"next_ms": f.Next, "every_ms": f.Every, "polls": f.Polls, "ago_ms": f.Since,
	})
	return err
}

// ReportUp records that a provider is up, because the provider answered a call. The argument age is
// the time since this call was sent. ReportUp ends only a fault that is older than the call.
func (s *Permits) ReportUp(ctx context.Context, provider string, age time.Duration) error {
	return s.ReportFault(ctx, provider, Fault{Since: age})
}

// ReportRefusal counts a submit that a provider refused.
func (s *Permits) ReportRefusal(ctx context.Context, provider string) error {
	return s.setRefusals(ctx, provider, func(pipe redis.Pipeliner, key string) { pipe.HIncrBy(ctx, key, "refusals", 1) })
}

// ReportAccepted records that a provider accepted a submit after refusing other submits.
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

// ProbeNow allows the next order at a provider immediately. Its result `waited` reports whether
// orders had to wait until now, because the provider was down or had refused the last submits.
func (s *Permits) ProbeNow(ctx context.Context, provider string) (waited bool, err error) {
	n, err := s.db.CallNumber(ctx, scripts.Get("standing_probe"), s.keys(provider), nil)
	return n == 1, err
}

// ReleaseUnplaced ends the permit of an order that was not placed. If the order was the probe,
// another order may immediately be the probe.
func (s *Permits) ReleaseUnplaced(ctx context.Context, provider string, order pool.Ref) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("release"), s.keys(provider), redisdb.Args{"order": order.String()})
	return err
}

// readStanding parses the hash in the reply of standing_read.lua. The argument now is the time on
// Redis' clock in Unix ms.
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
