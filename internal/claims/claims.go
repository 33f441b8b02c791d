package claims

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// The time limits of a claim.
const (
	Lease     = 5 * time.Second   // life of a lease that is not renewed
	Longest   = 180 * time.Second // longest time of a solve
	SharedFor = 60 * time.Second  // longest time for which a token is shared
	FailedFor = 30 * time.Second  // how long waiting replicas can read a failure
)

// setBack is the largest backward step of a store's clock after which stored times remain valid.
const setBack = 10 * time.Second

// State is the state of a claim, as Enter reports it to one replica.
type State string

// The states of a claim.
const (
	Held    State = "held"    // this replica holds the claim and must solve
	Solving State = "solving" // another replica holds the claim
	Shared  State = "solved"  // the solve ended with a token
	Failed  State = "error"   // the solve ended without a token
)

// Entry is the request of a replica to join the solve of a key.
type Entry struct {
	Key captcha.ID
	// Solve names the solve that the callers wait for; "" = the callers are new and join any solve.
	Solve string
	// Sitekey and Pageurl are for operators who read the table in PostgreSQL.
	Sitekey, Pageurl string
}

// Claim is the state of a key's solve.
type Claim struct {
	State State
	Solve string // name of the solve, which stays the same when another replica becomes the holder
	Fence int64  // set in the state Held: only the holder with the latest fence can end the solve
	First bool   // in the state Held: this holder began the solve
	// Left is the remaining time of the solve or, in the state Shared, of sharing the token.
	Left time.Duration
	// Value is End.Value in the states Shared and Failed; nil = the end is unknown.
	Value []byte
}

// End is the end of a solve.
type End struct {
	Value  []byte        // the encoded token or error for the waiting replicas; JSON
	Failed bool          // true: Value is only for replicas that already wait; later callers begin a new solve
	Lasts  time.Duration // how long a token may be shared; at most SharedFor
}

// Store keeps values with versions. The errors of its methods are redisdb.ErrDown.
type Store interface {
	// Load returns the value of a key and the time of the store's clock. Version 0 means no value.
	Load(ctx context.Context, key captcha.ID) (value []byte, version int64, now time.Time, err error)
	// Swap replaces the value if it has this version. A repetition after a lost reply returns false.
	Swap(ctx context.Context, key captcha.ID, version int64, to Change) (ok bool, err error)
}

// Change is a new value of a key.
type Change struct {
	Version int64
	Value   []byte        // JSON
	Keep    time.Duration // life of the value
}

// Claims makes, renews and ends the claims in a Store. It is safe for concurrent use.
type Claims struct{ Store }

// Enter joins the solve of a key. In the state Held this replica must solve; in the state Solving it must call Enter
// again until the solve ends.
func (c *Claims) Enter(ctx context.Context, e Entry) (claim Claim, err error) {
	call := rand.Text()
	err = c.step(ctx, e.Key, func(v *value) (changed bool) {
		claim, changed = v.enter(e, call)
		return changed
	})
	return claim, err
}

// Hold renews the lease. It returns false if another replica holds the claim, or the solve has ended or taken too long.
func (c *Claims) Hold(ctx context.Context, key captcha.ID, fence int64) (mine bool, err error) {
	err = c.step(ctx, key, func(v *value) bool {
		mine = v.hold(fence, Lease)
		return mine
	})
	return mine && err == nil, err
}

// Release ends the lease: the next replica that enters continues the solve. Release does nothing if this replica has
// lost the claim.
func (c *Claims) Release(ctx context.Context, key captcha.ID, fence int64) error {
	return c.step(ctx, key, func(v *value) bool { return v.hold(fence, 0) })
}

// End ends the solve. It returns false if this replica has lost the claim, and true again for a repetition.
func (c *Claims) End(ctx context.Context, key captcha.ID, fence int64, e End) (ok bool, err error) {
	err = c.step(ctx, key, func(v *value) (changed bool) {
		ok, changed = v.end(fence, e)
		return changed
	})
	return ok && err == nil, err
}

var (
	// pauses are the pauses between the attempts of a step. Two replicas rarely change a claim at the same time.
	pauses  = backoff.Doubling{First: 4 * time.Millisecond, Most: 50 * time.Millisecond}
	errBusy = downError{errors.New("the claim changes all the time")} // after the last attempt
)

// step changes the value of a key. It calls the function change with the present value, and again with the new one if
// another replica was faster.
func (c *Claims) step(ctx context.Context, key captcha.ID, change func(v *value) (changed bool)) error {
	for failures := 1; failures <= 8; failures++ {
		text, version, at, err := c.Load(ctx, key)
		if err != nil {
			return fmt.Errorf("loading a claim: %w", err)
		}
		v := value{now: at.UnixMilli(), next: max(version+1, at.UnixMilli())}
		if version > 0 {
			if err := json.Unmarshal(text, &v); err != nil {
				return fmt.Errorf("reading a claim: %w", err)
			}
		}
		if !change(&v) {
			return nil
		}
		text, _ = json.Marshal(v) // texts and numbers cannot fail
		ok, err := c.Swap(ctx, key, version, Change{v.next, text, v.rest() + SharedFor})
		switch {
		case err != nil:
			return fmt.Errorf("storing a claim: %w", err)
		case ok:
			return nil
		}
		if err := pauses.Wait(ctx, failures); err != nil {
			return err
		}
	}
	return errBusy
}

// value is the stored claim. Times are Unix ms on the store's clock.
type value struct {
	Solve   string `json:"solve"`
	Sitekey string `json:"sitekey,omitempty"`
	Pageurl string `json:"pageurl,omitempty"`
	Call    string `json:"call"` // names the call of Enter that made the last holder
	Fence   int64  `json:"fence"`
	Began   int64  `json:"began"`
	Stops   int64  `json:"stops"` // when the solve is over in any case
	Lease   int64  `json:"lease"` // when another replica may take over
	Ended   bool   `json:"ended"`
	Token   ending `json:"token,omitzero"`
	Failure ending `json:"failure,omitzero"` // stays beside the next solve, for callers of the failed one

	now, next int64 // the time, and the version of the value if it changes
}

// ending is the end of a solve: a token or a failure, and the time until which replicas share it.
type ending struct {
	Solve string `json:"solve"`
	Value []byte `json:"value"`
	Ends  int64  `json:"ends"`
}

// left returns the time until a stored moment, or 0 if the moment has passed. A moment more than `most` ahead counts as
// past, because the store's clock was set back.
func (v *value) left(moment int64, most time.Duration) time.Duration {
	left := time.Duration(moment-v.now) * time.Millisecond
	if left > most+setBack {
		return 0
	}
	return max(0, left)
}

// after returns the time d from now as Unix ms on the store's clock.
func (v *value) after(d time.Duration) int64 { return v.now + d.Milliseconds() }

// rest returns how long the present solve may still take; 0 = no solve is under way.
func (v *value) rest() time.Duration {
	if v.Ended {
		return 0
	}
	return v.left(v.Stops, Longest)
}

func (v *value) enter(e Entry, call string) (c Claim, changed bool) {
	isNew, shared, rest := e.Solve == "", v.left(v.Token.Ends, SharedFor), v.rest()
	switch {
	case shared > 0 && (isNew || e.Solve == v.Token.Solve):
		return Claim{State: Shared, Solve: v.Token.Solve, Left: shared, Value: v.Token.Value}, false
	case rest > 0 && v.Call == call: // the reply to the swap was lost
		return Claim{State: Held, Solve: v.Solve, Fence: v.Fence, First: v.Solve == call, Left: rest}, false
	case rest > 0 && (isNew || e.Solve == v.Solve):
		if v.left(v.Lease, Lease) > 0 {
			return Claim{State: Solving, Solve: v.Solve, Left: rest}, false
		}
	case isNew:
		*v = value{
			Solve: call, Sitekey: e.Sitekey, Pageurl: e.Pageurl, Began: v.now, Stops: v.after(Longest),
			Failure: v.Failure, now: v.now, next: v.next,
		}
	default:
		c = Claim{State: Failed, Solve: e.Solve}
		if v.Failure.Solve == e.Solve && v.left(v.Failure.Ends, FailedFor) > 0 {
			c.Value = v.Failure.Value
		}
		return c, false
	}
	v.Call, v.Fence, v.Lease = call, v.next, v.after(Lease)
	return Claim{State: Held, Solve: v.Solve, Fence: v.Fence, First: v.Solve == call, Left: v.rest()}, true
}

func (v *value) hold(fence int64, lease time.Duration) (mine bool) {
	if v.Fence != fence || v.rest() == 0 {
		return false
	}
	v.Lease = v.after(lease)
	return true
}

func (v *value) end(fence int64, e End) (ok, changed bool) {
	to, lasts := &v.Token, min(e.Lasts, SharedFor)
	if e.Failed {
		to, lasts = &v.Failure, FailedFor
	}
	if v.Fence != fence || v.rest() == 0 {
		return v.Fence == fence && v.Ended && to.Solve == v.Solve && bytes.Equal(to.Value, e.Value), false
	}
	v.Ended, *to = true, ending{v.Solve, e.Value, v.after(lasts)}
	return true, true
}

// downError wraps an error so that it is also a redisdb.ErrDown, whose reason is the error's text.
type downError struct{ error }

func (e downError) Is(target error) bool { return target == redisdb.ErrDown }
func (e downError) Reason() string       { return e.Error() }
