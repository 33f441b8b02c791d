package pool

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// addTask stores a client task, unless its caller has too many unfinished tasks.
// The steps of this file's scripts are in testdata/tasks.txt.
var addTask = newScript("add_task", `
-- KEYS 1 client_task:CALL 2 client_tasks:CALLER
-- ARGV 1 call 2 nonce of the submit 3 most 4 life_ms 5 caller 6 id 7 type 8 facts
-- Reply {ok}, {full}, or {taken}: another task has the name
local nonce = redis.call('HGET', KEYS[1], 'nonce')
if nonce then return {nonce == ARGV[2] and 'ok' or 'taken'} end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[4])
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then return {'full'} end
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('HSET', KEYS[1], 'nonce', ARGV[2], 'caller', ARGV[5], 'id', ARGV[6], 'type', ARGV[7],
  'facts', ARGV[8], 'made', now)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'ok'}
`)

// endTask notes that a task has been answered: with a token of an order, or with a failure.
var endTask = newScript("end_task", `
-- KEYS 1 client_task:CALL 2 client_tasks:CALLER
-- ARGV 1 call 2 order ('' = it failed) 3 nonce of the poll
-- Reply {1 this poll ended it, 0 an earlier one}
redis.call('ZREM', KEYS[2], ARGV[1]) -- needs no memory
if redis.call('EXISTS', KEYS[1]) == 0 then return {1} end
if redis.call('HSETNX', KEYS[1], 'ended', ARGV[3]) == 1 and ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'order', ARGV[2])
end
return {redis.call('HGET', KEYS[1], 'ended') == ARGV[3] and 1 or 0}
`)

const (
	// taskLimit is the life of a task's record.
	taskLimit = 15 * time.Minute
	// MostTasks limits the unfinished tasks of one caller.
	MostTasks = 1000
)

// ClientTask is a client task. The task and its call have the same name.
type ClientTask struct {
	Name   string
	Caller string
	ID     captcha.ID
	Type   captcha.Type
	Facts  string // what another replica needs to buy for the task; "" = nothing

	// The method Task sets these fields.
	Made  time.Time // on Redis' clock
	Ended bool      // a poll got the answer
	Order string    // whose token it got; "" = none
	Now   time.Time // when it was read
}

// AddTask stores a task for 15 minutes. The result full means that the caller has too many unfinished tasks. If both
// results are false, another task has this name.
func (p *Pool) AddTask(ctx context.Context, t *ClientTask, nonce string, most int) (added, full bool, err error) {
	v, err := p.runScript(ctx, addTask, []string{p.key("client_task", t.Name), p.key("client_tasks", digest(t.Caller))},
		t.Name, nonce, most, taskLimit.Milliseconds(), t.Caller, string(t.ID), string(t.Type), t.Facts)
	if err != nil {
		return false, false, err
	}
	return text(v[0]) == "ok", text(v[0]) == "full", nil
}

// Task reads a task. The second result is false if it does not exist or is older than 15 min.
func (p *Pool) Task(ctx context.Context, name string) (t ClientTask, is bool, err error) {
	var read *redis.MapStringStringCmd
	var clock *redis.TimeCmd
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		read, clock = pipe.HGetAll(ctx, p.key("client_task", name)), pipe.Time(ctx)
	})
	if err != nil {
		return ClientTask{}, false, err
	}
	h := fields(read.Val())
	return ClientTask{
		Name: name, Caller: h["caller"], ID: captcha.ID(h["id"]), Type: captcha.Type(h["type"]), Facts: h["facts"],
		Made: millis(h["made"]), Ended: h["ended"] != "", Order: h["order"], Now: clock.Val(),
	}, h["caller"] != "", nil
}

// EndTask notes that a poll got the answer of a task. The order is the one whose token was the answer; "" means a
// failure. EndTask returns whether the poll with this nonce is the first that got the answer.
func (p *Pool) EndTask(ctx context.Context, t *ClientTask, order, nonce string) (first bool, err error) {
	v, err := p.runScript(ctx, endTask, []string{p.key("client_task", t.Name), p.key("client_tasks", digest(t.Caller))},
		t.Name, order, nonce)
	return err == nil && number(v[0]) == 1, err
}

// DropTask deletes a task whose name was sent to no client.
func (p *Pool) DropTask(ctx context.Context, t *ClientTask) error {
	return p.pipelined(ctx, func(pipe redis.Pipeliner) {
		pipe.ZRem(ctx, p.key("client_tasks", digest(t.Caller)), t.Name)
		pipe.Del(ctx, p.key("client_task", t.Name))
	})
}
