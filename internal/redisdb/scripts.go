package redisdb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// probeScript tries whether a part of Redis takes writes.
var probeScript = Load(sources, "probe")

// Script is a step that Redis takes at once, or not at all.
type Script = redis.Script

// Answer is the answer to one call of Pipelined, or its error.
type Answer = redis.Cmd

// Load makes one script of the files lua/NAME.lua, in this order, behind lua/general.lua of
// this package. It panics if a file is missing from the binary.
func Load(files fs.FS, names ...string) *Script {
	text := General()
	for _, name := range names {
		text += "\n" + Source(files, name)
	}
	return redis.NewScript(text)
}

// General is the text that every script begins with.
func General() string { return Source(sources, "general") }

// Source reads the file lua/NAME.lua. It panics if the file is missing from the binary.
func Source(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, "lua/"+name+".lua")
	if err != nil {
		panic("redisdb: script missing from the binary: " + name)
	}
	return string(text)
}

// Eval runs a script on the slow client.
func (db *DB) Eval(ctx context.Context, script *Script, keys []string, args ...any) (any, error) {
	reply, err := script.Run(ctx, db.Slow, keys, args...).Result()
	return reply, db.Explain(ctx, err, keys)
}

// Number runs a script that answers with one number.
func (db *DB) Number(ctx context.Context, script *Script, keys []string, args ...any) (int64, error) {
	reply, err := db.Eval(ctx, script, keys, args...)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("redisdb: a script answered %T where a number belongs", reply)
	}
	return n, nil
}

// Integers reads the first n numbers of a script's answer.
func Integers(reply any, n int) ([]int64, error) {
	list, ok := reply.([]any)
	if !ok || len(list) < n {
		return nil, fmt.Errorf("redisdb: a script answered %T with too little in it", reply)
	}
	numbers := make([]int64, n)
	for i := range numbers {
		if numbers[i], ok = list[i].(int64); !ok {
			return nil, fmt.Errorf("redisdb: a script answered %T where a number belongs", list[i])
		}
	}
	return numbers, nil
}

// Pipelined sends many calls of one script in one exchange; each call then has its answer or
// its error. A pipeline does not send the text of a script that Redis forgot: calls that a
// node refused for that reason are sent again, with the text. Calls at a cluster's other nodes
// were carried out, and are not sent again.
func (db *DB) Pipelined(ctx context.Context, script *Script, fill func(call func(keys []string, args ...any) *Answer)) {
	type sent struct {
		keys   []string
		args   []any
		answer *Answer
	}
	var calls []sent
	pipe := db.Slow.Pipeline()
	fill(func(keys []string, args ...any) *Answer {
		answer := script.EvalSha(ctx, pipe, keys, args...)
		calls = append(calls, sent{keys, args, answer})
		return answer
	})
	_, _ = pipe.Exec(ctx) // each call has its error
	forgotten := slices.DeleteFunc(calls, func(call sent) bool { return !redis.HasErrorPrefix(call.answer.Err(), "NOSCRIPT") })
	again := make([]*Answer, len(forgotten))
	for i, call := range forgotten {
		again[i] = script.Eval(ctx, pipe, call.keys, call.args...)
	}
	_, _ = pipe.Exec(ctx)
	for i, call := range forgotten {
		call.answer.SetVal(again[i].Val())
		call.answer.SetErr(again[i].Err())
	}
}
