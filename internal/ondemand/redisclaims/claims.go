package redisclaims

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/redisdb"
)

// Options are how claims are kept.
type Options struct {
	// Wake is called with the key of each solve that this replica ends or lets go. The other
	// replicas hear it on redisdb's channel. It must not block; nil = no call.
	Wake  func(key captcha.ID)
	Times dedup.ClaimTimes
}

// Claims are the claims and the savings in one Redis. It is safe for concurrent use.
type Claims struct {
	db    *redisdb.DB
	wake  func(captcha.ID)
	times dedup.ClaimTimes
}

// New keeps claims in a Redis that the caller opened, runs and closes.
func New(db *redisdb.DB, o Options) *Claims {
	db.Declare(map[string]string{"claim": "hash", "savings": "hash"})
	if o.Wake == nil {
		o.Wake = func(captcha.ID) {}
	}
	return &Claims{db: db, wake: o.Wake, times: o.Times.OrDefault()}
}

// claimKeys are the keys of one claim: the claim itself, the token of its last successful
// solve, and its last failure. All claims and savings are in one slot, so that one script sees
// a claim and the savings.
type claimKeys struct{ claim, token, failure string }

func (c *Claims) keys(key captcha.ID) claimKeys {
	name := c.db.Prefix + ":claim:{dedup}:" + string(key)
	return claimKeys{claim: name, token: name + ":token", failure: name + ":failure"}
}

// savings is the key of what was counted on a UTC day, 2006-01-02.
func (c *Claims) savings(date string) string { return c.db.Prefix + ":savings:{dedup}:" + date }

// counted is the key that marks a call whose requests are counted.
func (c *Claims) counted(call string) string { return c.db.Prefix + ":counted:{dedup}:" + call }

//go:embed lua/*.lua
var sources embed.FS

var (
	enterScript      = redisdb.Load(sources, "claims", "savings", "claim_enter")
	holdScript       = redisdb.Load(sources, "claims", "claim_hold")
	endScript        = redisdb.Load(sources, "claims", "claim_end")
	addSavingsScript = redisdb.Load(sources, "savings", "savings_add")
	readDaysScript   = redisdb.Load(sources, "savings", "savings_days")
)

// Enter joins the solve of a key: it returns the token of a solve that has ended, or the state of
// the solve under way, or makes this replica the holder, which must solve. A waiting replica
// enters again until the solve has ended. If the answer has a token, the callers are counted.
func (c *Claims) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	k, call := c.keys(e.Key), rand.Text()
	reply, err := c.db.Eval(ctx, enterScript, []string{k.claim, k.token, k.failure, c.today(), c.counted(call)},
		e.Solve, call, string(e.Identity), e.Callers, c.times.Lease.Milliseconds(), c.times.Longest.Milliseconds(),
		c.times.Solved.Milliseconds(), c.times.Failed.Milliseconds())
	if err != nil {
		return dedup.Claim{}, err
	}
	return readClaim(reply)
}

// readClaim reads the answer of claim_enter.lua.
func readClaim(reply any) (dedup.Claim, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 7 {
		return dedup.Claim{}, fmt.Errorf("redisclaims: enter answered %T with %d values", reply, len(list))
	}
	text := func(i int) string { s, _ := list[i].(string); return s }
	number := func(i int) int64 { n, _ := list[i].(int64); return n }
	c := dedup.Claim{
		State: dedup.ClaimState(text(0)), Solve: text(1), Fence: number(2), Identity: captcha.ID(text(3)),
		Left: time.Duration(number(4)) * time.Millisecond,
	}
	if known := number(5) == 1; known {
		c.Value = []byte(text(6))
	}
	return c, nil
}

// Hold renews the lease of a claim that this replica holds, and notes the identity that its
// solve takes from. mine is false if another replica holds the claim, or the solve has ended
// or reached ClaimLongest. wanted reports whether a replica entered within ClaimWanted.
func (c *Claims) Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error) {
	reply, err := c.db.Eval(ctx, holdScript, []string{c.keys(key).claim}, fence, string(identity),
		c.times.Lease.Milliseconds(), c.times.Wanted.Milliseconds(), c.times.Longest.Milliseconds())
	if err != nil {
		return false, false, err
	}
	n, err := redisdb.Integers(reply, 2)
	if err != nil {
		return false, false, err
	}
	return n[0] == 1, n[1] == 1, nil
}

// LetGo ends the lease of a claim that this replica holds, so that the next replica to enter
// continues the solve. It is a no-op if another replica holds the claim.
func (c *Claims) LetGo(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error {
	_, err := c.db.Eval(ctx, holdScript, []string{c.keys(key).claim}, fence, string(identity),
		0, c.times.Wanted.Milliseconds(), c.times.Longest.Milliseconds())
	if err == nil {
		c.wake(key)
		c.db.Announce(ctx, string(key))
	}
	return err
}

// End ends the solve of a claim and wakes the waiting replicas. It returns false and changes
// nothing if this replica no longer holds the claim (see Hold). It may be repeated with the
// same end within ClaimSolved.
func (c *Claims) End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (ok bool, err error) {
	k, failed, lasts := c.keys(key), 0, min(e.Lasts, c.times.Solved)
	if e.Failed {
		failed, lasts = 1, c.times.Failed
	}
	n, err := c.db.Number(ctx, endScript, []string{k.claim, k.token, k.failure}, fence, failed, e.Value,
		lasts.Milliseconds(), c.times.Longest.Milliseconds(), c.times.Solved.Milliseconds(), c.db.Channel(), string(key))
	if err != nil || n == 0 {
		return false, err
	}
	c.wake(key)
	return true, nil
}
