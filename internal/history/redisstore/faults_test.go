//go:build !race

package redisstore_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb/redistest"
)

// storedHistory is a history in a bubble, with one record and one entry of the key "alice".
type storedHistory struct {
	*redisstore.Store

	redis  *redistest.Bubble
	record history.Record
}

func store(t *testing.T) storedHistory {
	t.Helper()
	redis := redistest.InBubble(t)
	db := openDB(t, redistest.Place{Addresses: redistest.BubbleAddress, Dial: redis.Dial}, "faults")
	s := storedHistory{redisstore.New(db, redisstore.Options{}), redis, solvedRecord("site", 1)}
	for name, write := range writes {
		if err := write(t.Context(), s); err != nil {
			t.Fatal(name, err)
		}
	}
	return s
}

type call = func(ctx context.Context, s storedHistory) error

// These variables contain the calls that write and the calls that read.
var (
	writes = map[string]call{
		"Write": func(ctx context.Context, s storedHistory) error { return s.Write(ctx, []history.Record{s.record}) },
		"WriteEntries": func(ctx context.Context, s storedHistory) error {
			return s.WriteEntries(ctx, []history.Entry{{ID: "entry", At: time.Now(), Key: "alice", Action: history.Taken, Target: "login"}})
		},
	}
	reads = map[string]call{
		"Site": func(ctx context.Context, s storedHistory) error {
			_, err := s.Site(ctx, "site", history.Query{Limit: 9})
			return err
		},
		"Tasks": func(ctx context.Context, s storedHistory) error {
			_, err := s.Tasks(ctx, history.StatusSolved, history.Query{Limit: 9})
			return err
		},
		"Day": func(ctx context.Context, s storedHistory) error {
			_, err := s.Day(ctx, time.Now())
			return err
		},
		"Solve": func(ctx context.Context, s storedHistory) error {
			_, _, err := s.Solve(ctx, s.record.ID)
			return err
		},
		"Task": func(ctx context.Context, s storedHistory) error {
			_, _, err := s.Task(ctx, s.record.Task)
			return err
		},
		"Entries": func(ctx context.Context, s storedHistory) error {
			_, err := s.Entries(ctx, "alice", history.Query{Limit: 9})
			return err
		},
		"KeyDay": func(ctx context.Context, s storedHistory) error {
			_, err := s.KeyDay(ctx, time.Now())
			return err
		},
	}
)

// If Redis refuses any command of a call, the call fails with history.ErrDown. A refused write changes nothing.
func TestCallsFailIfRedisRefusesACommand(t *testing.T) {
	calls := maps.Clone(reads)
	maps.Copy(calls, writes)
	for name, call := range calls {
		for n, more := 0, true; more; n++ {
			synctest.Test(t, func(t *testing.T) {
				s := store(t)
				was, end := s.redis.Dump(), s.redis.RefuseFrom(n)
				err := call(t.Context(), s)
				refused := end()
				if more = len(refused) > 0; more != errors.Is(err, history.ErrDown) || !more && err != nil {
					t.Errorf("%s, refused from command %d on (%v): %v", name, n, refused, err)
				}
				if n == 0 && s.redis.Dump() != was {
					t.Errorf("%s changed Redis without an answer:\n%s\nwas:\n%s", name, s.redis.Dump(), was)
				}
			})
		}
	}
}

// If a stored value cannot be read, each call that needs this value returns an error. This error
// does not count as an outage.
func TestUnreadableValuesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		kind  string // a part of the names of the spoiled keys
		value string // replaces the text behind the ID, or the figure and its name
		fails []string
		says  string
	}{
		"a record with too few fields": {":records:", "a|b", []string{"Site", "Solve", "Task", "Tasks"}, "cannot be read: it has 2 fields"},
		"a record without escapes":     {":records:", "%zz", []string{"Site", "Solve", "Task", "Tasks"}, "cannot be read: history: a text in Redis is not escaped"},
		"an entry without escapes":     {":audit:", "%zz", []string{"Entries"}, "cannot be read: history: a text in Redis is not escaped"},
		"a figure of a day":            {":day:", "many", []string{"Day"}, "of a day: "},
		"the name of a figure":         {":day:", "%zz", []string{"Day"}, "not escaped"},
		"a figure of a key":            {":usage:", "many", []string{"KeyDay"}, "of a day: "},
		"the name of a key's figure":   {":usage:", "%zz", []string{"KeyDay"}, "not escaped"},
		"the mark of a record":         {":solve:", "site|never", []string{"Solve", "Task"}, "the mark of a record in Redis has no time"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := store(t)
			for _, key := range s.redis.Keys() {
				if strings.Contains(key, c.kind) {
					spoil(t, s.redis, key, c.value)
				}
			}
			for call, read := range reads {
				err := read(t.Context(), s)
				if !slices.Contains(c.fails, call) {
					if err != nil {
						t.Errorf("%s: %s: %v", name, call, err)
					}
				} else if err == nil || errors.Is(err, history.ErrDown) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %s: %v", name, call, err)
				}
			}
		})
	}
}

func spoil(t *testing.T, redis *redistest.Bubble, key, value string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	switch redis.Type(key) {
	case "zset":
		members, err := redis.ZMembers(key)
		check(err)
		for _, member := range members {
			score, err := redis.ZScore(key, member)
			check(err)
			id := member[:strings.IndexAny(member, "| ")+1]
			_, err = redis.ZRem(key, member)
			check(err)
			_, err = redis.ZAdd(key, score, id+value)
			check(err)
		}
	case "hash":
		fields, err := redis.HKeys(key)
		check(err)
		if strings.HasPrefix(value, "%") {
			redis.HSet(key, value, "1")
		} else {
			redis.HSet(key, fields[0], value)
		}
	case "string":
		check(redis.Set(key, value))
	}
}
