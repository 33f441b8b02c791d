package pool

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// args are a script's arguments by the names in its header.
type args map[string]any

// named are a script's keys by the names in its header.
type named map[string]string

// call executes a script off the hot path. keys is a struct or a map with the names in the
// script's header; tail follows the named arguments.
func (c *client) call(ctx context.Context, name string, keys any, a args, tail ...any) (*reply, error) {
	s := c.script(name)
	names, values := s.input(keys, a, tail...)
	value, err := c.run(ctx, s, names, values...)
	if err != nil {
		return nil, err
	}
	r := s.read(value)
	return r, r.err
}

// callNumber executes a script that replies with one number.
func (c *client) callNumber(ctx context.Context, name string, keys any, a args, tail ...any) (int64, error) {
	s := c.script(name)
	names, values := s.input(keys, a, tail...)
	return c.number(ctx, s, names, values...)
}

// input returns keys and arguments in the order of the header. It panics over an argument that
// is missing or that the header does not name.
func (s *script) input(keys any, a args, tail ...any) (names []string, values []any) {
	values = make([]any, 0, len(s.args)+len(tail))
	for _, name := range s.args {
		value, is := a[name]
		if !is {
			panic("pool: " + s.name + ".lua gets no argument " + name)
		}
		values = append(values, plain(value))
	}
	if len(a) != len(s.args) {
		panic(fmt.Sprintf("pool: %s.lua gets arguments that it does not name: %v, want %q", s.name, a, s.args))
	}
	return s.keysOf(keys), append(values, tail...)
}

// keysOf returns the keys that the header names, from a struct or a map.
func (s *script) keysOf(keys any) []string {
	from := reflect.ValueOf(keys)
	all := make([]string, len(s.keys))
	for i, name := range s.keys {
		var key reflect.Value
		if from.Kind() == reflect.Map {
			key = from.MapIndex(reflect.ValueOf(name))
		} else {
			key = from.FieldByName(name)
		}
		if !key.IsValid() {
			panic("pool: " + s.name + ".lua gets no key " + name)
		}
		all[i] = key.String()
	}
	return all
}

// plain returns a duration in ms, and other numbers and texts as values of types that go-redis
// knows.
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

// reply reads a list by the names in the script's header. The first field of another type than
// it was read as sets err.
type reply struct {
	script *script
	list   []any
	err    error
}

func (s *script) read(value any) *reply {
	list, is := value.([]any)
	r := &reply{script: s, list: list}
	if !is {
		r.err = fmt.Errorf("pool: %s.lua replied %T instead of a list", s.name, value)
	}
	return r
}

// read returns a field; the zero value if it has another type.
func read[T any](r *reply, name string) (value T) {
	at, is := r.script.fields[name]
	if !is {
		panic("pool: " + r.script.name + ".lua does not reply " + name)
	}
	if at < len(r.list) {
		value, is = r.list[at].(T)
	}
	if (at >= len(r.list) || !is) && r.err == nil {
		r.err = fmt.Errorf("pool: the %s of %s.lua is missing or not a %T", name, r.script.name, value)
	}
	return value
}

func (r *reply) int(name string) int     { return int(read[int64](r, name)) }
func (r *reply) text(name string) string { return read[string](r, name) }
func (r *reply) items(name string) []any { return read[[]any](r, name) }
func (r *reply) is(name string) bool     { return read[int64](r, name) == 1 }
func (r *reply) ms(name string) time.Duration {
	return time.Duration(read[int64](r, name)) * time.Millisecond
}
func (r *reply) moment(name string) Moment { return Moment(read[int64](r, name)) }
