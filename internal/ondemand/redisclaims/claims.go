package redisclaims

import (
	"context"
	"crypto/rand"
	"embed"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/redisdb"
)

// Options are the options of New.
type Options struct {
	// Wake is called with the key of each solve that this replica ends or releases. Other replicas
	// receive the key on redisdb's channel. Wake must not block; nil = no call.
	Wake  func(key captcha.ID)
	Times dedup.ClaimTimes
}

// Claims stores the claims and the savings in Redis. It is safe for concurrent use.
type Claims struct {
	db    *redisdb.DB
	wake  func(captcha.ID)
	times dedup.ClaimTimes
}

// New returns a Claims that uses db. The caller opens, runs and closes db.
func New(db *redisdb.DB, o Options) *Claims {
	if o.Wake == nil {
		o.Wake = func(captcha.ID) {}
	}
	return &Claims{db: db, wake: o.Wake, times: o.Times.OrDefault()}
}

// claimKeys has the keys of one claim: the claim itself, the token of its last successful solve, its
// last failure and today's savings. If a call counts requests, mark is the key that marks the call as
// counted. All keys are in one slot, so that one script can use a claim and the savings.
type claimKeys struct{ claim, token, failure, savings, mark string }

func (c *Claims) keys(key captcha.ID) claimKeys {
	name := c.db.Prefix + ":claim:{dedup}:" + string(key)
	return claimKeys{claim: name, token: name + ":token", failure: name + ":failure", savings: c.todayKey()}
}

// savingsKey returns the key of the savings of a UTC day. The date has the form 2006-01-02.
func (c *Claims) savingsKey(date string) string { return c.db.Prefix + ":savings:{dedup}:" + date }

// countedKey returns the key that marks a call whose requests were counted.
func (c *Claims) countedKey(call string) string { return c.db.Prefix + ":counted:{dedup}:" + call }

//go:embed lua/*.lua
var sources embed.FS

var scripts = redisdb.LoadScripts(sources, nil)

// Enter joins the solve of a key. Its result has one of three states: a shared token, a solve under
// way at another replica, or a claim that this replica holds and must solve. While the solve is under
// way at another replica, call Enter again until the solve ends. If Enter returns a token, the
// savings count the callers.
func (c *Claims) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	k, call := c.keys(e.Key), rand.Text()
	k.mark = c.countedKey(call)
	r, err := c.db.Call(ctx, scripts.Get("claim_enter"), k, redisdb.Args{
		"waits_for": e.Solve, "call": call, "identity": e.Identity, "callers": e.Callers, "lease_ms": c.times.Lease,
		"longest_ms": c.times.Longest, "shared_ms": c.times.Solved, "failure_ms": c.times.Failed,
	})
	if err != nil {
		return dedup.Claim{}, err
	}
	claim := dedup.Claim{
		State: dedup.ClaimState(r.Text("state")), Solve: r.Text("solve"), Fence: int64(r.Int("fence")),
		Identity: captcha.ID(r.Text("identity")), Left: r.Duration("left_ms"),
	}
	if r.Is("known") {
		claim.Value = []byte(r.Text("value"))
	}
	return claim, r.Err
}

// Hold renews the lease of a claim that this replica holds, and stores the identity whose stock the
// solve uses. Its result `mine` is false if another replica holds the claim, or if the solve has
// ended or taken longer than ClaimLongest. Its result `wanted` reports whether a replica called
// Enter within ClaimWanted.
func (c *Claims) Hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) (mine, wanted bool, err error) {
	r, err := c.hold(ctx, key, fence, identity, c.times.Lease)
	if err != nil {
		return false, false, err
	}
	return r.Is("held"), r.Is("wanted"), r.Err
}

func (c *Claims) hold(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID, lease time.Duration) (*redisdb.Reply, error) {
	return c.db.Call(ctx, scripts.Get("claim_hold"), c.keys(key), redisdb.Args{
		"fence": fence, "identity": identity, "lease_ms": lease, "waiting_ms": c.times.Wanted, "longest_ms": c.times.Longest,
	})
}

// Release ends the lease of a claim that this replica holds. The next replica that calls Enter
// continues the solve. If another replica holds the claim, Release does nothing.
func (c *Claims) Release(ctx context.Context, key captcha.ID, fence int64, identity captcha.ID) error {
	_, err := c.hold(ctx, key, fence, identity, 0)
	if err == nil {
		c.wake(key)
		c.db.Announce(ctx, string(key))
	}
	return err
}

// End ends the solve of a claim and wakes the waiting replicas. End returns false and changes
// nothing if this replica no longer holds the claim (see Hold). A retry with the same end within
// ClaimSolved returns true.
func (c *Claims) End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (ok bool, err error) {
	failed, lasts := 0, min(e.Lasts, c.times.Solved)
	if e.Failed {
		failed, lasts = 1, c.times.Failed
	}
	n, err := c.db.CallNumber(ctx, scripts.Get("claim_end"), c.keys(key), redisdb.Args{
		"fence": fence, "failed": failed, "value": e.Value, "keep_ms": lasts, "longest_ms": c.times.Longest,
		"claim_ms": c.times.Solved, "channel": c.db.Channel(), "key": key,
	})
	if err != nil || n == 0 {
		return false, err
	}
	c.wake(key)
	return true, nil
}
