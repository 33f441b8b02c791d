package pool

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// beat keeps a replica alive and takes over the orders of dead ones. A replica whose own previous beat is too old takes
// over nothing.
// Its steps are in testdata/beat.txt.
var beat = newScript("beat", `
-- KEYS 1 replicas 2 deadlines
-- ARGV 1 replica
-- Reply {orders past their deadline, live replicas, now}
local last = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
redis.call('ZADD', KEYS[1], now, ARGV[1])
local mine = '@owned:' .. ARGV[1]
if last > now - DEAD / 2 then
  for _, r in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - DEAD, 'LIMIT', 0, 8)) do
    local theirs = '@owned:' .. r
    for _, order in ipairs(redis.call('SPOP', theirs, 50)) do
      local state = redis.call('HGET', '@order:' .. order, 'state')
      if state and state ~= 'ended' then
        redis.call('HSET', '@order:' .. order, 'owner', ARGV[1])
        redis.call('SADD', mine, order)
      end
    end
    if redis.call('EXISTS', theirs) == 0 then redis.call('ZREM', KEYS[1], r) end
  end
end
return {redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 50),
  redis.call('ZRANGEBYSCORE', KEYS[1], now - DEAD, '+inf'), now}
`)

// Beat notes that this replica lives, and takes over the orders of dead replicas. It returns orders whose deadline has
// passed.
func (p *Pool) Beat(ctx context.Context) (late []string, err error) {
	sent := time.Now()
	v, err := p.runScript(ctx, beat, []string{p.key("replicas"), p.key("deadlines")}, p.Replica)
	if err != nil {
		return nil, err
	}
	live := texts(v[1])
	p.live.Store(&live)
	if time.Since(sent) < callLimit/4 { // else the clocks cannot be compared
		ahead := time.UnixMilli(number(v[2])).Sub(sent)
		p.ahead.Store(&ahead)
	}
	return texts(v[0]), nil
}

// JournalEntry is an order as it is stored in the journal.
type JournalEntry struct {
	Order
	Task              string
	Owner             string
	State             State
	Placed, Submitted time.Time     // Submitted is zero before the submit
	Age               time.Duration // since the placing
}

// Find reads an order from the journal. It returns false if the order does not exist or has ended.
func (p *Pool) Find(ctx context.Context, order string) (e JournalEntry, is bool, err error) {
	list, err := p.entries(ctx, []string{order})
	if err != nil || len(list) == 0 {
		return JournalEntry{}, false, err
	}
	return list[0], true, nil
}

// mostEntries limits the orders that one exchange with Redis reads.
const mostEntries = 500

// Journal lists the orders of all replicas, by their deadlines.
func (p *Pool) Journal(ctx context.Context) (list []JournalEntry, err error) {
	var orders *redis.StringSliceCmd
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) { orders = pipe.ZRange(ctx, p.key("deadlines"), 0, -1) })
	for part := range slices.Chunk(orders.Val(), mostEntries) {
		if err != nil {
			break
		}
		var some []JournalEntry
		some, err = p.entries(ctx, part)
		list = append(list, some...)
	}
	return list, err
}

// entries reads orders from the journal. It leaves out orders that do not exist or have ended.
func (p *Pool) entries(ctx context.Context, orders []string) (list []JournalEntry, err error) {
	var clock *redis.TimeCmd
	hashes := make([]*redis.MapStringStringCmd, len(orders))
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		clock = pipe.Time(ctx)
		for i, order := range orders {
			hashes[i] = pipe.HGetAll(ctx, p.key("order", order))
		}
	})
	if err != nil {
		return nil, err
	}
	for i, order := range orders {
		h := fields(hashes[i].Val())
		if h["id"] == "" {
			continue
		}
		e := JournalEntry{
			Order: Order{Name: order, ID: captcha.ID(h["id"]), Account: h["account"], Facts: h["facts"], Price: h.int("price")},
			Task:  h["task"], Owner: h["owner"], State: State(h["state"]), Placed: millis(h["placed"]),
		}
		if h["submitted"] != "" {
			e.Submitted = millis(h["submitted"])
		}
		e.Age = clock.Val().Sub(e.Placed)
		list = append(list, e)
	}
	return list, nil
}

// Owned lists the orders that this replica owns.
func (p *Pool) Owned(ctx context.Context) ([]string, error) {
	var orders *redis.StringSliceCmd
	err := p.pipelined(ctx, func(pipe redis.Pipeliner) { orders = pipe.SMembers(ctx, p.key("owned", p.Replica)) })
	return orders.Val(), err
}

// Drop removes an order from the key deadlines, because the order is missing in the journal.
func (p *Pool) Drop(ctx context.Context, order string) error {
	return p.pipelined(ctx, func(pipe redis.Pipeliner) { pipe.ZRem(ctx, p.key("deadlines"), order) })
}

// InFlight returns the number of orders in flight at each account.
func (p *Pool) InFlight(ctx context.Context, accounts []string) ([]int, error) {
	list, counts := make([]int, len(accounts)), make([]*redis.IntCmd, len(accounts))
	err := p.pipelined(ctx, func(pipe redis.Pipeliner) {
		for i, account := range accounts {
			counts[i] = pipe.ZCard(ctx, p.key("permits", account))
		}
	})
	for i := range counts {
		list[i] = int(counts[i].Val())
	}
	return list, err
}
