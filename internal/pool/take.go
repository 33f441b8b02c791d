package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/backoff"
	"poold/internal/captcha"
)

// take answers one call, and stores the answer in the same step, so that a repetition of the call gets the same answer.
// testdata/take.txt shows each case.
//
// The stored answers:
//
//	token|FINGERPRINT|NONCE|COUNTER|ORDER|DIES|TAKEN|...  a token, then the value of token:ORDER; lives as long as it
//	failed|||JSON                                         a FailedError
//	waiting|FINGERPRINT|REPLICA                           a call with an Idempotency-Key that waits
//	ended|||                                              a call that ended without an answer
//
// The steps of this file's scripts are in testdata/take.txt, cancel.txt and flush.txt.
var take = newScript("take", `
-- KEYS 1 tokens:ID 2 tickets:ID 3 reply:CALL 4 stats:ID 5 rate:ID 6 outbox:handouts 7 due 8 replicas
-- ARGV 1 id 2 call 3 replica 4 need_ms 5 margin_ms 6 may_wait (1, 0) 7 the first take of a request with an
--      Idempotency-Key (1, 0) 8 most_tickets 9 row ('' = no sink) 10 rate (0 = none) 11 rate_per_ms 12 fingerprint
--      13 nonce
--      14 gives_up: when the caller gives up 15 scope of the caller's budget ('' = none) 16 its micros_per_day
--      17 its micros_per_month
-- Reply {stored answer, now}, {waits, new}, {none}, {full}, {conflict}, {limited, ms}, {budget, ms, spent} or
-- {given_up}
local id, call, replica, need, margin, may_wait, first_take, most_tickets, row, rate, per, fingerprint, nonce,
  gives_up, scope, per_day, per_month = unpack(ARGV)
if now > tonumber(gives_up) then return {'given_up'} end
need, rate, per = tonumber(need), tonumber(rate), tonumber(per)
local ticket = need .. '|' .. replica .. '|' .. call
local done, kind, known, third = redis.call('GET', KEYS[3]) -- the third part is a nonce, or a replica
if first_take == '1' and string.find(done or '', '^failed|') then -- an earlier request with the key failed
  redis.call('DEL', KEYS[3])
  done = nil
end
if done then
  kind, known, third = string.match(done, '^(%a+)|([^|]*)|([^|]*)')
  if known ~= fingerprint and kind ~= 'ended' and kind ~= 'failed' then return {'conflict'} end
  if kind ~= 'waiting' then
    redis.call('ZREM', KEYS[2], ticket)
    if kind == 'token' and third ~= nonce then count(id, 'replays', 1) end
    return {done, now}
  end
end
local spent, opens = overspent(scope, 1, per_day, per_month) -- until it is used up, a token may have any price
if spent then
  if redis.call('ZREM', KEYS[2], ticket) == 1 then
    count(id, 'left', 1)
    wake(id)
  end
  return {'budget', opens - now, spent}
end
local waiting, element, token = redis.call('ZCARD', KEYS[2])
repeat
  element = expire(id, now + margin)
  local first = element
  if first and (waiting > 0 or leading(first) < now + need) then element = assign(id, ticket, need) end
  if element and rate > 0 then
    local oldest = tonumber(redis.call('LINDEX', KEYS[5], rate - 1) or 0)
    if oldest > now - per and oldest <= now then return {'limited', oldest + per - now} end
  end
  if element then
    if element == first then redis.call('LPOP', KEYS[1]) else redis.call('LREM', KEYS[1], 1, element) end
    local found = redis.call('GET', '@token:' .. string.match(element, '|(.*)$'))
    -- Redis' clock may go back
    if found and leading(found) <= now + 1000 then token = found else count(id, 'expired', 1) end
  end
until token or not element
if not element then
  local ended = redis.call('GET', KEYS[3])
  if ended and ended ~= done then return {ended, now} end -- expire has ended this task
  soon(id)
  if redis.call('ZSCORE', KEYS[2], ticket) then return {'waits', 0} end
  if kind == 'waiting' then -- the same request waits at another replica: one ticket is demand for one token
    local other = need .. '|' .. third .. '|' .. call
    if live(other) and redis.call('ZSCORE', KEYS[2], other) then return {'waits', 0} end
    redis.call('ZREM', KEYS[2], other)
  end
  waiting = redis.call('ZCARD', KEYS[2])
  if may_wait == '0' or waiting >= tonumber(most_tickets) then
    count(id, 'missed', 1)
    if row ~= '' then tell('handouts', 'kind', 'missed', 'row', row) end
    return {may_wait == '0' and 'none' or 'full'}
  end
  redis.call('ZADD', KEYS[2], string.format('%.0f', t[1] * 1000000 + t[2]), ticket)
  redis.call('PEXPIRE', KEYS[2], 3600000)
  if fingerprint ~= '' then redis.call('SET', KEYS[3], 'waiting|' .. fingerprint .. '|' .. replica, 'PX', 900000) end
  return {'waits', 1}
end
local counter = waiting > 0 and redis.call('ZREM', KEYS[2], ticket) == 1 and 'waited' or 'hits'
local dies, order = string.match(element, '^(%d+)|(.*)$')
local price = string.match(token, '^%d+|[^|]*|([^|]*)')
done = table.concat({'token', fingerprint, nonce, counter, order, dies, now, token}, '|')
redis.call('DEL', '@token:' .. order) -- needs no memory
redis.call('SET', KEYS[3], done, 'PX', math.max(1, dies - now))
if row ~= '' then tell('handouts', 'kind', counter, 'order', order, 'row', row, 'price', price) end
count(id, counter, 1)
if scope ~= '' then charge(scope, now, micros(price)) end
if rate > 0 then
  redis.call('LPUSH', KEYS[5], now)
  redis.call('LTRIM', KEYS[5], 0, rate - 1)
  redis.call('PEXPIRE', KEYS[5], per)
end
soon(id)
return {done, now}
`)

// cancel ends a call whose caller is gone, whose wait is over, or whose answer was not sent. It removes the ticket and
// returns the token to the stock. If Redis runs a take of this call later, that take gets nothing. A call with an
// Idempotency-Key keeps its token, and if it has none, a later take may still get one: its caller may repeat the
// request.
var cancel = newScript("cancel", `
-- KEYS 1 tokens:ID 2 tickets:ID 3 reply:CALL 4 stats:ID 5 outbox:handouts 6 due
-- ARGV 1 id 2 ticket 3 margin_ms 4 tombstone_ms 5 keyed (1, 0) 6 counter of a ticket (missed, left) 7 row
--      8 scope of the caller's budget ('' = none)
-- Reply {1 a token returned, else 0}
local id, ticket, margin, tombstone, keyed, counter, row, scope = unpack(ARGV)
local done = redis.call('GET', KEYS[3])
if redis.call('ZREM', KEYS[2], ticket) == 1 then -- needs no memory
  count(id, counter, 1)
  if row ~= '' then tell('handouts', 'kind', counter, 'row', row) end
  wake(id)
end
if keyed == '1' then
  -- If a request with the same Idempotency-Key waits at another replica, its stored answer stays.
  local waits_at = string.match(done or '', '^waiting|[^|]*|(.*)$')
  if waits_at == string.match(ticket, '|([^|]*)|') then redis.call('DEL', KEYS[3]) end
  return {0}
end
redis.call('SET', KEYS[3], 'ended|||', 'PX', tombstone)
local order, dies, taken, token = string.match(done or '', '^token|[^|]*|[^|]*|[^|]*|([^|]*)|(%d+)|(%d+)|(.*)$')
if not order then return {0} end
count(id, 'returned', 1)
if scope ~= '' then charge(scope, taken, -micros(string.match(token, '^%d+|[^|]*|([^|]*)'))) end
if row ~= '' then tell('handouts', 'kind', 'returned', 'order', order, 'row', row) end
if tonumber(dies) < now + margin then
  count(id, 'expired', 1)
else
  redis.call('SET', '@token:' .. order, token, 'PX', dies - now + 60000)
  insert(id, dies .. '|' .. order)
  wake(id)
end
soon(id)
return {1}
`)

const (
	// tombstoneLife is how long it is kept that a call has ended. No take of the call arrives later than that.
	tombstoneLife = 30 * time.Second
	// cancelFor limits one attempt to end a call whose caller is gone. Failed attempts are repeated every cancelEvery, for
	// at most mostCancels calls.
	cancelFor, cancelEvery, mostCancels = 5 * time.Second, time.Second, 4096
	// repeatEvery is how often a waiting call asks again, in case its wake-up was lost.
	repeatEvery = 500 * time.Millisecond
)

// Errors of Take.
var (
	// ErrConflict means that the Idempotency-Key was used for another request.
	ErrConflict = errors.New("pool: idempotency key used for another request")
	// ErrClosed means that this replica stops and ends all waits.
	ErrClosed = errors.New("pool: closing")
	// errGivenUp means that Redis ran the take after its caller had given up, so the take did nothing.
	errGivenUp = fmt.Errorf("a take came too late: %w", ErrDown)
	// errEnded means that the call was cancelled before.
	errEnded = errors.New("pool: the call has ended")
)

// EmptyError means that the call gets no token.
type EmptyError struct{ Full bool } // Full: too many callers wait

func (e *EmptyError) Error() string {
	if e.Full {
		return "pool: too many callers wait"
	}
	return "pool: empty"
}

// RateError means that the rate of the identity is reached.
type RateError struct{ RetryAfter time.Duration }

func (e *RateError) Error() string { return "pool: rate limited" }

// FailedError means that no token can come for a call: its order failed, none can be placed, the budget of its key is
// used up, or the token of its client task has expired.
type FailedError struct {
	BadParameters bool `json:"bad_parameters,omitempty"` // the provider rejects them
	// NotPlaced is ReasonBudget, ReasonBrake or ReasonProvider: no order can be placed; "" = an order failed.
	NotPlaced string    `json:"not_placed,omitempty"`
	Until     time.Time `json:"until,omitzero"` // when one can, on the clock of the replica that refused; zero = unknown
	Reason    string    `json:"reason"`
	Scope     string    `json:"-"` // the scope of the caller's budget that is used up; "" = another reason
	Spent     string    `json:"-"` // the use of the caller's budget: 2 of 1.5 on this UTC day
}

func (e *FailedError) Error() string {
	if e.NotPlaced != "" {
		return "pool: no order: " + e.Reason
	}
	return "pool: the order failed: " + e.Reason
}

// stored returns the error as the text that scripts store in reply:CALL.
func (e *FailedError) stored() string {
	short := *e
	short.Reason = cut(e.Reason)
	text, _ := json.Marshal(short) // of strings and a time: no error is possible
	return string(text)
}

// Source says how a caller got its token.
type Source string

// The sources of a token.
const (
	FromPool   Source = "pool"   // the token was in stock
	FromWait   Source = "wait"   // the token landed while the caller waited
	FromReplay Source = "replay" // the call had been answered before
	FromSolve  Source = "solve"  // the token was bought for the call; package solve says so
)

// Token is a token that was handed out. Times are on Redis' clock.
type Token struct {
	Order, Value, Provider string
	Extra                  captcha.Extra
	// Born is the earliest possible time of the solve; Dies is the end of the token's life, including the margin
	Born, Dies time.Time
	TTL        time.Duration // from the answer to Dies
	Source     Source
	Price      int64 // billionths of the currency; -1 = unknown
}

// Call is one request for a token. A retry of the request is the same Call.
type Call struct {
	// Name identifies the call: random, or derived from the caller and its Idempotency-Key, or the id of
	// a task. It contains no |.
	Name string
	// Fingerprint is "" for a random Name. For a derived Name it is a hash of the request, so that another request with
	// the same Idempotency-Key is noticed as a conflict.
	Fingerprint string
	Nonce       string // random for each HTTP request: another nonce with the same Name is a replay
	ID          captcha.ID
	Margin      time.Duration
	MinTTL      time.Duration   // least remaining life of the token; no effect below Margin
	Wait        time.Duration   // how long the caller waits; 0 = no wait
	Ends        <-chan struct{} // ends the wait earlier, as a miss; nil = it does not
	Task        bool            // a client task: its ticket names no replica, and stays until its answer is read
	MostTickets int             // of the identity
	Row         string          // JSON of the hand-out for the sink; "" = no sink
	Rate        int             // most tokens of the identity within RatePer; 0 = no limit
	RatePer     time.Duration
	// Budget limits the money of the caller, which pays for each token that it takes. Without a Scope the money is
	// unlimited.
	Budget Budget
}

// need returns how long the token must still live. It is 0 for a task: the need is part of the ticket's name, and this
// name must not change when a reload changes the margin.
func (c *Call) need() time.Duration {
	if c.Task {
		return 0
	}
	return max(c.MinTTL, c.Margin)
}

// ticket returns the name of the call's ticket at this replica.
func (p *Pool) ticket(c *Call) string {
	return strconv.FormatInt(c.need().Milliseconds(), 10) + "|" + p.ticketReplica(c) + "|" + c.Name
}

func (p *Pool) ticketReplica(c *Call) string {
	if c.Task {
		return ""
	}
	return p.Replica
}

// Take returns a token, and waits for one up to c.Wait. If there is none in this time, the error is an *EmptyError. If
// Take fails for another reason, it cancels the call itself, so that no token is lost. If the answer does not reach the
// client, the caller of Take must call Cancel. The answer of a task stays stored, because its client polls again.
func (p *Pool) Take(ctx context.Context, c *Call) (Token, error) {
	if err := p.c.Away(); err != nil {
		return Token{}, err // nothing was sent, so nothing is to be ended
	}
	over := time.Now().Add(c.Wait)
	mayWait := c.Wait > 0 || c.Task
	woken, stop := p.waiters.add(c.Name, mayWait && !c.Task)
	defer stop()
	abandon := func() { //nolint:contextcheck // the caller is gone
		stop()
		p.abandon(c)
	}
	for first := true; ; first = false {
		token, pause, err := p.takeOnce(ctx, c, mayWait, first)
		if pause == 0 {
			if !c.Task && errors.Is(err, ErrDown) {
				abandon() // the script may have run
			}
			return token, err
		}
		left := time.Until(over)
		if left <= 0 {
			if stop(); p.waiters.has(c.Name) {
				return Token{}, err // the ticket belongs to another request with the same key
			}
			if failed := p.endCall(ctx, c, "missed"); failed != nil {
				p.abandon(c) //nolint:contextcheck // the caller is gone
				err = failed
			}
			return Token{}, err
		}
		select {
		case <-ctx.Done():
			abandon()
			return Token{}, ctx.Err()
		case <-p.closing:
			abandon()
			return Token{}, ErrClosed
		case <-c.Ends:
			over = time.Now()
		case <-woken:
		case <-time.After(min(left, pause)):
		}
	}
}

// ErrWaiting means that the token of a client task is not there yet.
var ErrWaiting = errors.New("pool: the call waits")

// takeOnce runs the script take once. A positive pause means that the call waits, and the error says what it waits for.
func (p *Pool) takeOnce(ctx context.Context, c *Call, mayWait, first bool) (_ Token, pause time.Duration, err error) {
	ctx, stop := bounded(ctx)
	defer stop()
	reply, err := p.runScript(ctx, take,
		[]string{p.key("tokens", c.ID), p.key("tickets", c.ID), p.key("reply", c.Name), p.stats(c.ID),
			p.key("rate", c.ID), p.key("outbox", "handouts"), p.key("due"), p.key("replicas")},
		string(c.ID), c.Name, p.ticketReplica(c), c.need().Milliseconds(), c.Margin.Milliseconds(), bit(mayWait),
		bit(first && c.Fingerprint != ""), c.MostTickets, c.Row, c.Rate, max(c.RatePer, time.Millisecond).Milliseconds(),
		c.Fingerprint, c.Nonce, p.lateAfter(ctx), c.Budget.Scope, c.Budget.MicrosPerDay, c.Budget.MicrosPerMonth)
	if err != nil {
		return Token{}, 0, err
	}
	switch answer := text(reply[0]); answer {
	case "waits":
		if number(reply[1]) == 1 {
			p.c.Changed(c.ID)
		}
		if c.Task {
			return Token{}, 0, ErrWaiting
		}
		return Token{}, repeatEvery, &EmptyError{}
	case "none", "full":
		p.c.Changed(c.ID)
		return Token{}, 0, &EmptyError{Full: answer == "full"}
	case "conflict":
		return Token{}, 0, ErrConflict
	case "budget":
		return Token{}, 0, p.keyBudget(c, text(reply[2]), span(reply[1]))
	case "given_up":
		return Token{}, 0, errGivenUp
	case "limited":
		wait, err := span(reply[1]), &RateError{RetryAfter: span(reply[1])}
		if wait < c.Wait {
			return Token{}, wait, err
		}
		return Token{}, 0, err
	default:
		token, err := p.answer(c, answer, time.UnixMilli(number(reply[1])))
		return token, 0, err
	}
}

// answer decodes a stored answer. The argument now is the time on Redis' clock.
func (p *Pool) answer(c *Call, stored string, now time.Time) (Token, error) {
	f := strings.SplitN(stored, "|", 12)
	switch {
	case f[0] == "failed" && len(f) > 3:
		failed := &FailedError{}
		_ = json.Unmarshal([]byte(strings.Join(f[3:], "|")), failed) // of FailedError.stored, or of the script expire
		return Token{}, failed
	case f[0] == "ended":
		return Token{}, errEnded
	case f[0] != "token" || len(f) != 12:
		return Token{}, errors.New("pool: the stored answer of the call is malformed")
	}
	p.c.Changed(c.ID)
	token := Token{Order: f[4], Dies: millis(f[5]), Born: millis(f[7]), Provider: f[8], Extra: captcha.Extra(f[10]),
		Value: f[11], Source: FromPool}
	token.TTL = token.Dies.Sub(now)
	token.Price, _ = strconv.ParseInt(f[9], 10, 64)
	switch {
	case f[2] != c.Nonce:
		token.Source = FromReplay
	case f[3] == "waited":
		token.Source = FromWait
	}
	return token, nil
}

// Again returns the stored answer of a call, and takes no new token. If no answer is stored, the error is an
// *EmptyError.
func (p *Pool) Again(ctx context.Context, c *Call) (token Token, err error) {
	var stored *redis.StringCmd
	var clock *redis.TimeCmd
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		clock, stored = pipe.Time(ctx), pipe.Get(ctx, p.key("reply", c.Name))
	})
	switch {
	case err != nil:
		return Token{}, err
	case stored.Val() == "":
		return Token{}, &EmptyError{}
	}
	return p.answer(c, stored.Val(), clock.Val())
}

// Cancel returns the token of a call to the stock, because the answer was not sent. If the call has an Idempotency-Key,
// its token stays reserved for that key.
func (p *Pool) Cancel(c *Call) {
	p.endLater(c, slog.LevelWarn, "token lost: no caller received it, and it could not be returned")
}

// abandon ends a call whose caller is gone.
func (p *Pool) abandon(c *Call) {
	p.endLater(c, slog.LevelDebug, "a call was not ended; its token, if any, counts as handed out")
}

// endLater ends the call in the background, so that the caller does not wait for Redis. It repeats the attempt until
// Redis is back, because a remaining ticket would count as demand while this replica lives.
func (p *Pool) endLater(c *Call, level slog.Level, failed string) {
	try := func() error {
		if p.waiters.has(c.Name) {
			return nil // the ticket belongs to another request with the same key
		}
		ctx, stop := context.WithTimeout(context.Background(), cancelFor)
		defer stop()
		return p.endCall(ctx, c, "left")
	}
	p.background.Add(1)
	go func() { // no WaitGroup allows that a call begins while Run waits for the others
		defer p.background.Add(-1)
		err := try()
		if err == nil {
			return
		}
		p.c.Log.Log(context.Background(), level, failed, "identity", c.ID, "err", err)
		select {
		case p.cancels <- struct{}{}:
		default:
			return
		}
		defer func() { <-p.cancels }()
		for err != nil && !errors.Is(err, redis.ErrClosed) {
			select {
			case <-p.ended:
				return
			case <-time.After(backoff.Around(cancelEvery, 0.5)):
			}
			err = try()
		}
	}()
}

// endCall runs the script cancel. If the call had a ticket, the outcome (missed or left) is the counter that the script
// increases.
func (p *Pool) endCall(ctx context.Context, c *Call, outcome string) error {
	_, err := p.runScript(ctx, cancel,
		[]string{p.key("tokens", c.ID), p.key("tickets", c.ID), p.key("reply", c.Name), p.stats(c.ID),
			p.key("outbox", "handouts"), p.key("due")},
		string(c.ID), p.ticket(c), c.Margin.Milliseconds(), tombstoneLife.Milliseconds(), bit(c.Fingerprint != ""),
		outcome, c.Row, c.Budget.Scope)
	if err == nil {
		p.c.Changed(c.ID)
	}
	return err
}

// flush removes the tokens of an identity.
var flush = newScript("flush", `
-- KEYS 1 tokens:ID 2 stats:ID 3 due
-- ARGV 1 id
-- Reply {number of flushed tokens}
local stock = redis.call('LRANGE', KEYS[1], 0, -1)
for _, element in ipairs(stock) do redis.call('DEL', '@token:' .. string.match(element, '|(.*)$')) end
if #stock == 0 then return {0} end
redis.call('DEL', KEYS[1])
count(ARGV[1], 'flushed', #stock)
soon(ARGV[1])
return {#stock}
`)

// Flush removes the tokens of an identity and returns their number. Orders in flight still land.
func (p *Pool) Flush(ctx context.Context, id captcha.ID) (int, error) {
	v, err := p.runScript(ctx, flush, []string{p.key("tokens", id), p.stats(id), p.key("due")}, string(id))
	if err != nil {
		return 0, err
	}
	p.c.Changed(id)
	return int(number(v[0])), nil
}
