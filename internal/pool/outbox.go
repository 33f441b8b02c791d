package pool

import (
	"context"
	"time"
)

// The streams of the outbox.
const (
	Ends     = "ends"     // purchases and ends of orders
	Handouts = "handouts" // tokens that were handed out, misses and reports
)

// Active is the kind of the row of an order in flight.
const Active = "active"

// senderLife is how long a replica that reads rows may send them. If it has not called Done by then, another replica
// sends the same rows, so the sink must accept rows twice.
const senderLife = 20 * time.Second

// readRows reads the oldest rows of both streams, unless another replica is sending rows. If many rows wait, it reads
// equally many of each stream.
// The steps of this file's scripts are in testdata/outbox.txt.
var readRows = newScript("read_rows", `
-- KEYS 1 sender 2 outbox:ends 3 outbox:handouts
-- ARGV 1 replica 2 most 3 life_ms
-- Reply {1, ends, handouts}, or {0}: another replica is sending
local sender, most = redis.call('GET', KEYS[1]), tonumber(ARGV[2])
if sender and sender ~= ARGV[1] then return {0} end
local others = redis.call('XLEN', KEYS[3])
local ends = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', math.max(most / 2, most - others))
local rest = others > 0 and redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', most - #ends) or {}
-- A full Redis refuses this SET; the rows are sent all the same, to free memory.
if #ends + #rest > 0 then redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) end
return {1, ends, rest}
`)

// doneRows removes the sent rows from both streams, and allows another replica to send.
var doneRows = newScript("done_rows", `
-- KEYS 1 sender 2 outbox:ends 3 outbox:handouts
-- ARGV 1 replica 2 last of the ends ('' = none) 3 last of the handouts
-- Reply {}
for i = 2, 3 do
  if ARGV[i] ~= '' then
    redis.call('XTRIM', KEYS[i], 'MINID', ARGV[i])
    redis.call('XDEL', KEYS[i], ARGV[i])
  end
end
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {}
`)

// shared appends the row of a caller that shares a token to the outbox.
var shared = newScript("shared", `
-- KEYS 1 outbox:handouts
-- ARGV 1 kind 2 order 3 row 4 price
-- Reply {}
tell('handouts', 'kind', ARGV[1], 'order', ARGV[2], 'row', ARGV[3], 'price', ARGV[4])
return {}
`)

// Row describes what happened to an order or a call, for the history store outside Redis.
type Row struct {
	Stream string // Ends or Handouts
	ID     string // of the row in its stream
	At     time.Time
	// of Ends: Active, or the end of the order
	// of Handouts: hits, waited, shared, missed, left, returned, accepted, rejected
	Kind  string
	Order string // "" = missed or left
	JSON  string // as its caller wrote it
	Price int64  // of a token that was handed out, in billionths of the currency; -1 = unknown
}

func (p *Pool) outboxKeys() []string {
	return []string{p.key("sender"), p.key("outbox", Ends), p.key("outbox", Handouts)}
}

// Rows returns the oldest rows of both streams, or false while another replica is sending rows. After Rows, other
// replicas wait until this one calls Done, at most 20 s.
func (p *Pool) Rows(ctx context.Context, most int) (list []Row, mine bool, err error) {
	v, err := p.runScript(ctx, readRows, p.outboxKeys(), p.Replica, most, senderLife.Milliseconds())
	if err != nil || number(v[0]) == 0 {
		return nil, false, err
	}
	for i, stream := range []string{Ends, Handouts} {
		found, _ := v[i+1].([]any)
		for _, one := range found {
			pair, _ := one.([]any)
			f := fieldsOf(pair[1])
			list = append(list, Row{
				Stream: stream, ID: text(pair[0]), At: millis(f["at"]), Kind: f["kind"], Order: f["order"], JSON: f["row"],
				Price: f.int("price"),
			})
		}
	}
	return list, true, nil
}

// Done removes the rows that Rows returned, because the sink has stored them. Then other replicas may send rows.
func (p *Pool) Done(ctx context.Context, rows []Row) error {
	last := map[string]string{}
	for i := range rows {
		last[rows[i].Stream] = rows[i].ID
	}
	_, err := p.runScript(ctx, doneRows, p.outboxKeys(), p.Replica, last[Ends], last[Handouts])
	return err
}

// Shared appends a row for a caller that shares a token with others. The take of a shared token writes no row itself.
func (p *Pool) Shared(ctx context.Context, t *Token, row string) error {
	kind := "shared"
	switch t.Source {
	case FromPool:
		kind = "hits"
	case FromWait, FromSolve:
		kind = "waited"
	}
	_, err := p.runScript(ctx, shared, []string{p.key("outbox", Handouts)}, kind, t.Order, row, t.Price)
	return err
}
