package redisdb

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Args contains the arguments of a script by their names in the script's header. A time.Duration is
// sent in ms.
type Args map[string]any

// Keys contains the keys of a script by their names in the script's header.
type Keys map[string]string

// Call executes a script on the slow client. The keys are a Keys map, or a struct whose fields have
// the names in the script's header. The values in tail follow the named arguments. If the Reply
// contains an error, Call also returns this error.
func (db *DB) Call(ctx context.Context, s *Script, keys any, args Args, tail ...any) (*Reply, error) {
	names, values := s.Input(keys, args, tail...)
	value, err := db.Eval(ctx, s, names, values...)
	if err != nil {
		return nil, err
	}
	r := s.Read(value)
	return r, r.Err
}

// CallNumber is Call for a script that replies with one integer.
func (db *DB) CallNumber(ctx context.Context, s *Script, keys any, args Args, tail ...any) (int64, error) {
	names, values := s.Input(keys, args, tail...)
	reply, err := db.Eval(ctx, s, names, values...)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("redisdb: %s.lua replied %T instead of a number", s.name, reply)
	}
	return n, nil
}

// Eval executes a script on the slow client. Keys and arguments are in the order of the header.
func (db *DB) Eval(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	return s.Run(ctx, db.Slow, keys, args...).Result()
}

// Answer is the reply to one call of Pipelined, or the error of the call.
type Answer = redis.Cmd

// Add adds a call to Pipelined. Add's arguments are those of DB.Call.
type Add = func(keys any, args Args, tail ...any) *Answer

// Pipelined sends many calls of one script in one exchange. The function fill adds the calls.
// Afterwards each Answer contains a reply or an error. If a node lacks the script, Pipelined
// repeats only the refused calls, with the script's text. In a cluster, other nodes may have
// executed their calls already.
func (db *DB) Pipelined(ctx context.Context, s *Script, fill func(call Add)) {
	type sent struct {
		keys   []string
		args   []any
		answer *Answer
	}
	var calls []sent
	pipe := db.Slow.Pipeline()
	fill(func(keys any, args Args, tail ...any) *Answer {
		names, values := s.Input(keys, args, tail...)
		answer := s.EvalSha(ctx, pipe, names, values...)
		calls = append(calls, sent{names, values, answer})
		return answer
	})
	_, _ = pipe.Exec(ctx) // each Answer has its own error
	forgotten := slices.DeleteFunc(calls, func(call sent) bool { return !redis.HasErrorPrefix(call.answer.Err(), "NOSCRIPT") })
	again := make([]*Answer, len(forgotten))
	for i, call := range forgotten {
		again[i] = s.Eval(ctx, pipe, call.keys, call.args...)
	}
	_, _ = pipe.Exec(ctx)
	for i, call := range forgotten {
		call.answer.SetVal(again[i].Val())
		call.answer.SetErr(again[i].Err())
	}
}

// Input returns the keys and the arguments in the order of the script's header. Input panics if an
// argument is missing or is not in the header.
func (s *Script) Input(keys any, args Args, tail ...any) (names []string, values []any) {
	values = make([]any, 0, len(s.Names("ARGV"))+len(tail))
	for _, name := range s.Names("ARGV") {
		value, is := args[name]
		if !is {
			panic("redisdb: " + s.name + ".lua gets no argument " + name)
		}
		values = append(values, plain(value))
	}
	if len(args) != len(values) {
		panic(fmt.Sprintf("redisdb: %s.lua gets arguments that it does not name: %v, want %q", s.name, args, s.Names("ARGV")))
	}
	return s.KeysOf(keys), append(values, tail...)
}

// KeysOf returns a list of keys in the order of the script's header. The argument contains the keys
// in a struct or in a Keys map.
func (s *Script) KeysOf(keys any) []string {
	all := make([]string, len(s.Names("KEYS")))
	if named, is := keys.(Keys); is {
		for i, name := range s.Names("KEYS") {
			key, is := named[name]
			if !is {
				panic("redisdb: " + s.name + ".lua gets no key " + name)
			}
			all[i] = key
		}
		return all
	}
	from := reflect.ValueOf(keys)
	for i, field := range s.fieldsIn(from.Type()) {
		all[i] = from.Field(field).String()
	}
	return all
}

// keyFields lists the fields of a struct that contain the keys of a script.
type keyFields struct {
	of     reflect.Type
	fields []int // indexes of the fields, in the order of the header
}

// fieldsIn returns the indexes of the fields of a struct that contain the script's keys. fieldsIn
// caches the last result, because each script is called with one type of struct.
func (s *Script) fieldsIn(of reflect.Type) []int {
	if known := s.keyFields.Load(); known != nil && known.of == of {
		return known.fields
	}
	found := &keyFields{of: of}
	for _, name := range s.Names("KEYS") {
		field, is := of.FieldByName(name)
		if !is {
			panic("redisdb: " + s.name + ".lua gets no key " + name)
		}
		found.fields = append(found.fields, field.Index[0])
	}
	s.keyFields.Store(found)
	return found.fields
}

// plain converts a value to a type that go-redis accepts. A duration becomes a number of ms.
func plain(value any) any {
	if span, is := value.(time.Duration); is {
		return span.Milliseconds()
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Int64:
		return v.Int()
	}
	return value
}

// Reply is a list that a script returned. Reply's methods read one field by its name in the
// script's header.
type Reply struct {
	Err error // error of the first read of a field that is missing or has another type

	script *Script
	list   []any
}

// Read converts the script's reply, which must be a list, to a Reply.
func (s *Script) Read(value any) *Reply {
	list, is := value.([]any)
	r := &Reply{script: s, list: list}
	if !is {
		r.Err = fmt.Errorf("redisdb: %s.lua replied %T instead of a list", s.name, value)
	}
	return r
}

// field returns the named field. If the field is missing or has another type, field sets Err and
// returns the zero value.
func field[T any](r *Reply, name string) (value T) {
	at, is := r.script.fields[name]
	if !is {
		panic("redisdb: " + r.script.name + ".lua does not reply " + name)
	}
	if at < len(r.list) {
		value, is = r.list[at].(T)
	}
	if (at >= len(r.list) || !is) && r.Err == nil {
		r.Err = fmt.Errorf("redisdb: the %s of %s.lua is missing or not a %T", name, r.script.name, value)
	}
	return value
}

// List returns the reply of a script that replies with a list.
func (r *Reply) List() []any { return r.list }

// Int returns an integer field.
func (r *Reply) Int(name string) int { return int(field[int64](r, name)) }

// Text returns a text field.
func (r *Reply) Text(name string) string { return field[string](r, name) }

// Items returns a list field.
func (r *Reply) Items(name string) []any { return field[[]any](r, name) }

// Integers returns a list field of integers.
func (r *Reply) Integers(name string) []int64 {
	items := r.Items(name)
	if len(items) == 0 {
		return nil
	}
	numbers, err := Integers(items, len(items))
	if r.Err == nil {
		r.Err = err
	}
	return numbers
}

// Is reports whether a field is 1.
func (r *Reply) Is(name string) bool { return field[int64](r, name) == 1 }

// Duration returns a field that is a number of ms.
func (r *Reply) Duration(name string) time.Duration {
	return time.Duration(field[int64](r, name)) * time.Millisecond
}

// Integers returns the first n elements of a list. These elements must be integers.
func Integers(list any, n int) ([]int64, error) {
	values, ok := list.([]any)
	if !ok || len(values) < n {
		return nil, fmt.Errorf("redisdb: a script replied %T with too few values", list)
	}
	numbers := make([]int64, n)
	for i := range numbers {
		if numbers[i], ok = values[i].(int64); !ok {
			return nil, fmt.Errorf("redisdb: a script replied %T instead of a number", values[i])
		}
	}
	return numbers, nil
}

// Pairs iterates over a list of names and values, such as a hash that a script replied.
func Pairs(items []any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; i+1 < len(items); i += 2 {
			name, _ := items[i].(string)
			value, _ := items[i+1].(string)
			if !yield(name, value) {
				return
			}
		}
	}
}

// Hash is a hash that a script replied. An absent field counts as empty or 0.
type Hash map[string]string

// HashOf returns a hash from the names and values in turn.
func HashOf(items []any) Hash { return maps.Collect(Pairs(items)) }

// Int returns a field as an integer; 0 if the field is not an integer.
func (h Hash) Int(name string) int64 {
	n, _ := strconv.ParseInt(h[name], 10, 64)
	return n
}

// Duration returns a field that is a number of ms.
func (h Hash) Duration(name string) time.Duration {
	return time.Duration(h.Int(name)) * time.Millisecond
}
