package pool

import (
	"context"
	"time"
)

// The streams of the outbox.
const (
	Ends     = "ends"     // purchases and ends of orders
	Handouts = "handouts" // tokens that were handed out, and misses
)

// Opened is the kind of the row of a purchase.
const Opened = "open"

// senderLife is how long a replica may send rows before another one begins, unless it says Done. Rows that
// are sent twice must do no harm.
const senderLife = 20 * time.Second

// readRows reads the oldest rows, if no other replica is sending some.
var readRows = newScript("rows", `
-- KEYS 1 outbox:STREAM 2 sender:STREAM
-- ARGV 1 replica 2 most 3 life_ms
-- Reply {1, rows}, or {0}: another replica is sending
local sender = redis.call('GET', KEYS[2])
if sender and sender ~= ARGV[1] then return {0} end
local list = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])
if #list > 0 then redis.pcall('SET', KEYS[2], ARGV[1], 'PX', ARGV[3]) end -- a full Redis refuses it, and is emptied
return {1, list}
`)

// doneRows removes rows, and lets another replica send.
var doneRows = newScript("done", `
-- KEYS 1 outbox:STREAM 2 sender:STREAM
-- ARGV 1 replica, then rows
-- Reply {}
if #ARGV > 1 then redis.call('XDEL', KEYS[1], unpack(ARGV, 2)) end
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
return {}
`)

// Row is what happened to an order, for a sink outside Redis.
type Row struct {
	ID    string // of the row
	At    time.Time
	Kind  string // Opened, or the end of the order
	Order string
	JSON  string // as its caller wrote it
}

// Rows returns the oldest rows of a stream. False: another replica is sending some. After rows the others wait
// for Done, or for 20 s.
func (p *Pool) Rows(ctx context.Context, stream string, most int) (list []Row, mine bool, err error) {
	v, err := p.call(ctx, readRows, []string{p.key("outbox", stream), p.key("sender", stream)}, p.Replica, most, senderLife.Milliseconds())
	if err != nil || number(v[0]) == 0 {
		return nil, false, err
	}
	found, _ := v[1].([]any)
	for _, one := range found {
		pair, _ := one.([]any)
		f := fieldsOf(pair[1])
		list = append(list, Row{ID: text(pair[0]), At: millis(f["at"]), Kind: f["kind"], Order: f["order"], JSON: f["row"]})
	}
	return list, true, nil
}

// Done removes rows that the sink has, perhaps none, and lets other replicas send.
func (p *Pool) Done(ctx context.Context, stream string, ids []string) error {
	args := []any{p.Replica}
	for _, id := range ids {
		args = append(args, id)
	}
	_, err := p.call(ctx, doneRows, []string{p.key("outbox", stream), p.key("sender", stream)}, args...)
	return err
}

// Outbox returns how many rows of a stream wait, and how many were dropped because too many waited.
func (p *Pool) Outbox(ctx context.Context, stream string) (waiting, dropped int64, err error) {
	err = p.plainly(ctx, func(ctx context.Context) error {
		pipe := p.db.Pipeline()
		length, lost := pipe.XLen(ctx, p.key("outbox", stream)), pipe.HMGet(ctx, p.key("outbox", "dropped"), stream)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		waiting, dropped = length.Val(), fields{stream: text(lost.Val()[0])}.int(stream)
		return nil
	})
	return waiting, dropped, err
}
