package pool

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// MostRefusals is the number of refused submits in a row, over all replicas and targets, from
// which on a provider gets one submit in 5 s.
const MostRefusals = 20

// standingKept is how long a provider's standing is remembered.
const standingKept = 24 * time.Hour

// ProviderFault is why a provider is down, as the replicas share it.
type ProviderFault struct {
	Kind   string        // "account" or "outage"
	Code   string        // the provider's own word, or a short one of ours
	Reason string        // a sentence
	Action string        // the call that met it
	Since  time.Duration // how long ago it began
	Next   time.Duration // until the next probe; below 0 = it is overdue
	Every  time.Duration // between two probes
	Polls  bool          // polls are answered all the same
}

// Standing is how a provider does, over all replicas.
type Standing struct {
	Fault    *ProviderFault // nil = it is up
	Refusals int            // submits in a row that were refused
}

// Permit is how Acquire went.
type Permit struct {
	OK bool
	At Moment // when Redis decided
	// Wait is how long the provider takes no order of any replica, because it is down or
	// has refused the last submits. 0 without OK: all permits are in use.
	Wait     time.Duration
	Refusals int // submits in a row that were refused
}

// Standings tell all replicas how the providers do.
type Standings struct{ *client }

// ReportFault notes that a provider is down.
func (s *Standings) ReportFault(ctx context.Context, provider string, f ProviderFault) error {
	_, err := s.callNumber(ctx, "standing_report", s.providerKeys(provider), args{
		"kind": f.Kind, "code": f.Code, "reason": cut(f.Reason), "action": f.Action,
		"next_ms": f.Next, "every_ms": f.Every, "polls": f.Polls, "ago_ms": f.Since,
	})
	return err
}

// ReportUp notes that a provider answered a call that proves it up, sent that long ago. An
// older fault is over then.
func (s *Standings) ReportUp(ctx context.Context, provider string, sent time.Duration) error {
	return s.ReportFault(ctx, provider, ProviderFault{Since: sent})
}

// ReportRefusal counts a submit that the provider refused.
func (s *Standings) ReportRefusal(ctx context.Context, provider string) error {
	return s.setRefusals(ctx, provider, func(pipe redis.Pipeliner, key string) { pipe.HIncrBy(ctx, key, "refusals", 1) })
}

// ReportAccepted notes that the provider accepted a submit after it had refused some.
func (s *Standings) ReportAccepted(ctx context.Context, provider string) error {
	return s.setRefusals(ctx, provider, func(pipe redis.Pipeliner, key string) { pipe.HSet(ctx, key, "refusals", 0) })
}

func (s *Standings) setRefusals(ctx context.Context, provider string, set func(redis.Pipeliner, string)) error {
	pipe, key := s.db.Slow.Pipeline(), s.standing(provider)
	set(pipe, key)
	pipe.PExpire(ctx, key, standingKept)
	_, err := pipe.Exec(ctx)
	return err
}

// Standing tells how a provider does.
func (s *Standings) Standing(ctx context.Context, provider string) (Standing, error) {
	r, err := s.call(ctx, "standing_read", s.providerKeys(provider), nil)
	if err != nil {
		return Standing{}, err
	}
	return readStanding(r.Items("fields"), int64(r.Int("now"))), r.Err
}

// ProbeNow lets the next order at a provider be placed at once. It reports whether the
// provider was down, or bounded for its refusals.
func (s *Standings) ProbeNow(ctx context.Context, provider string) (waited bool, err error) {
	n, err := s.callNumber(ctx, "standing_probe", s.providerKeys(provider), nil)
	return n == 1, err
}

// GiveBack gives back the permit of an order that was not placed, and the probe that it took.
func (s *Orders) GiveBack(ctx context.Context, provider string, order Ref) error {
	_, err := s.callNumber(ctx, "release", s.providerKeys(provider), args{"order": order.String()})
	return err
}

// readStanding reads the hash of a standing as a script answers it at a time, Unix ms.
func readStanding(list []any, now int64) (s Standing) {
	f, since, next := ProviderFault{}, int64(0), int64(0)
	for name, value := range pairs(list) {
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "kind":
			f.Kind = value
		case "code":
			f.Code = value
		case "reason":
			f.Reason = value
		case "action":
			f.Action = value
		case "polls":
			f.Polls = n == 1
		case "since":
			since = n
		case "next":
			next = n
		case "every":
			f.Every = time.Duration(n) * time.Millisecond
		case "refusals":
			s.Refusals = int(n)
		}
	}
	if f.Kind != "" {
		f.Since = max(0, time.Duration(now-since)*time.Millisecond)
		f.Next = time.Duration(next-now) * time.Millisecond
		s.Fault = &f
	}
	return s
}
