package pool

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// brakeAccount sets the brake of an account. It does nothing if a later call has proved that the account works (field
// up). A brake of the kind account gives way only to its own kind. A brake of the kind busy does not replace an outage,
// polls or hangs.
// The steps of this file's scripts are in testdata/brake.txt, pause.txt and retry.txt.
var brakeAccount = newScript("brake_account", `
-- KEYS 1 brake:KEY
-- ARGV 1 kind 2 reason 3 every_ms 4 ms since the failed call was sent
-- Reply {1 it is set, else 0}
local b, at = redis.call('HMGET', KEYS[1], 'kind', 'since', 'up'), now - ARGV[4]
if b[3] and at < tonumber(b[3]) and tonumber(b[3]) <= now then return {0} end
if b[1] == 'account' and ARGV[1] ~= 'account' then return {0} end
if ARGV[1] == 'busy' and string.find('outage polls hangs', b[1] or 'none', 1, true) then return {0} end
redis.call('HSET', KEYS[1], 'kind', ARGV[1], 'reason', ARGV[2], 'every', ARGV[3], 'next', now + ARGV[3],
  'since', (b[1] == ARGV[1] or b[1] == 'busy' and ARGV[1] == 'outage') and b[2] or at)
redis.call('PEXPIRE', KEYS[1], 86400000)
return {1}
`)

// lift ends the brake of an account, because a call that was sent ago_ms ago proved that the account works.
var lift = newScript("lift", `
-- KEYS 1 brake:KEY
-- ARGV 1 account 2 ago_ms
-- Reply {1 it was set, else 0}
local since = tonumber(redis.call('HGET', KEYS[1], 'since') or 0)
if since == 0 or now - ARGV[2] < since then return {0} end
prove(KEYS[1], ARGV[1], now - ARGV[2])
return {1}
`)

// pause sets or ends the operator's pause of an identity. The end of a pause, like a probe, lets the next
// order be placed at once, at any provider.
var pause = newScript("pause", `
-- KEYS 1 brake:ID 2 due
-- ARGV 1 id 2 text ('' = resume) 3 pause_ms (0 = no end)
-- Reply {1 it was braked before, else 0}
local was = redis.call('HEXISTS', KEYS[1], 'next')
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], 'paused', 'resumes')
  for _, field in ipairs(redis.call('HGETALL', KEYS[1])) do -- a value is no such name
    if string.sub(field, 1, 6) == 'avoid:' then redis.call('HDEL', KEYS[1], field) end
  end
  if was == 1 then redis.call('HSET', KEYS[1], 'next', now) end
  redis.call('PEXPIRE', KEYS[1], 86400000)
else
  redis.call('HSET', KEYS[1], 'paused', ARGV[2], 'resumes', ARGV[3] == '0' and 0 or now + ARGV[3])
  redis.call('PERSIST', KEYS[1])
end
redis.call('ZADD', KEYS[2], now, ARGV[1])
return {was}
`)

// retry allows the next order of a failing identity or account at once, in spite of its brake.
var retry = newScript("retry", `
-- KEYS 1 brake:ID or brake:KEY 2 obstacles
-- ARGV 1 account ('' = an identity)
if redis.call('HEXISTS', KEYS[1], 'next') == 0 then return {0} end
redis.call('HSET', KEYS[1], 'next', now)
if ARGV[1] ~= '' then redis.call('ZADD', KEYS[2], now, ARGV[1]) end
return {1}
`)

// Brake keeps an identity or an account from buying. The zero value means no brake.
type Brake struct {
	Kind   string        // BrakeAccount and those below it, or the Outcome of an order; "" = none
	Reason string        // of the last failure
	Since  time.Time     // zero: it counts failures, and does not brake yet
	Every  time.Duration // between two probes
	Next   time.Time     // of the next probe
	// FailedInARow counts the orders that failed or were refused in a row.
	FailedInARow int

	Paused  string    // what the operator said; "" = not paused
	Resumes time.Time // zero = the pause has no end

	// Avoid lists the providers that braked the identity in the last ten minutes: each refused the parameters, or failed
	// several of the identity's orders in a row.
	Avoid []string
}

// On reports whether a brake other than a pause keeps orders back.
func (b Brake) On() bool { return !b.Since.IsZero() }

// IsPaused reports whether the operator paused buying.
func (b Brake) IsPaused() bool { return b.Paused != "" }

// readBrake decodes the fields of a brake. The argument at is the present time. A brake lasts at most its own interval,
// or a minute.
func readBrake(f fields, at time.Time) Brake {
	b := Brake{Kind: f["kind"], Reason: f["reason"], Every: time.Duration(f.int("every")) * time.Millisecond,
		FailedInARow: int(f.int("failed_in_a_row"))}
	if f["since"] != "" && f["next"] != "" {
		b.Since, b.Next = millis(f["since"]), millis(f["next"])
		if latest := at.Add(max(b.Every, time.Minute)); b.Next.After(latest) {
			b.Next = latest
		}
	}
	if resumes := f.int("resumes"); f["paused"] != "" && (resumes == 0 || resumes > at.UnixMilli()) {
		b.Paused = f["paused"]
		if resumes > 0 {
			b.Resumes = millis(f["resumes"])
		}
	}
	for name := range f {
		if provider, is := strings.CutPrefix(name, "avoid:"); is && f.int(name) > at.UnixMilli() {
			b.Avoid = append(b.Avoid, provider)
		}
	}
	slices.Sort(b.Avoid)
	return b
}

// The kinds of brakes that SetBrake sets. The script end sets the others, which are named after ends of orders.
const (
	BrakeAccount = "account" // money, key or ban
	BrakeOutage  = "outage"  // no proper answers
	BrakePolls   = "polls"   // submits work, polls do not: the probe is a poll
	BrakeHangs   = "hangs"   // orders bring no token: only a token ends it
)

// SetBrake sets the brake of an account's key: from now on one order is placed in each interval `every`. The failed
// call was sent `ago` ago. SetBrake returns false if a later call has proved that the account works.
func (p *Pool) SetBrake(ctx context.Context, key, kind, reason string, every, ago time.Duration) (bool, error) {
	v, err := p.runScript(ctx, brakeAccount, []string{p.key("brake", key)}, kind, cut(reason), every.Milliseconds(),
		ago.Milliseconds())
	return err == nil && number(v[0]) == 1, err
}

// Lift ends the brake of an account's key, because a call that was sent `ago` ago worked.
func (p *Pool) Lift(ctx context.Context, account, key string, ago time.Duration) (was bool, err error) {
	v, err := p.runScript(ctx, lift, []string{p.key("brake", key)}, account, ago.Milliseconds())
	return err == nil && number(v[0]) == 1, err
}

// Brakes reads the brakes of accounts, by their keys.
func (p *Pool) Brakes(ctx context.Context, keys []string) ([]Brake, error) {
	var clock *redis.TimeCmd
	list, all := make([]Brake, len(keys)), make([]*redis.MapStringStringCmd, len(keys))
	err := p.pipelined(ctx, func(pipe redis.Pipeliner) {
		clock = pipe.Time(ctx)
		for i, key := range keys {
			all[i] = pipe.HGetAll(ctx, p.key("brake", key))
		}
	})
	for i := range all {
		list[i] = readBrake(all[i].Val(), clock.Val())
	}
	return list, err
}

// Pause stops buying for an identity. A length of 0 means until Resume.
func (p *Pool) Pause(ctx context.Context, id captcha.ID, reason string, length time.Duration) error {
	_, err := p.setPause(ctx, id, cmp.Or(cut(strings.TrimSpace(reason)), "paused by an operator"), length)
	return err
}

// Resume ends a pause. If the identity is failing, Resume also allows its next order at once, and returns true.
func (p *Pool) Resume(ctx context.Context, id captcha.ID) (tried bool, err error) {
	return p.setPause(ctx, id, "", 0)
}

func (p *Pool) setPause(ctx context.Context, id captcha.ID, text string,
	length time.Duration) (braked bool, err error) {
	v, err := p.runScript(ctx, pause, []string{p.key("brake", id), p.key("due")}, string(id), text, length.Milliseconds())
	if err != nil {
		return false, err
	}
	p.c.Changed(id)
	return number(v[0]) == 1, nil
}

// Retry allows the next order at once in spite of a brake. The brake belongs to an account's key or, if account is "",
// to an identity.
func (p *Pool) Retry(ctx context.Context, brake, account string) error {
	_, err := p.runScript(ctx, retry, []string{p.key("brake", brake), p.key("obstacles")}, account)
	return err
}
