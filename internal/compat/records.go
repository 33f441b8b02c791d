package compat

import (
	"context"
	"embed"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// taskLife is the life of a record.
	taskLife = 15 * time.Minute
	// taskLease is the life of a lease that is not renewed, the same as that of a ticket.
	taskLease = 2 * time.Second
	// taskIdle is the time after its caller's last question in which a task is held.
	taskIdle = 30 * time.Second
)

//go:embed lua/*.lua
var sources embed.FS

var (
	makeScript  = redisdb.Load(sources, "task_make")
	visitScript = redisdb.Load(sources, "task_visit")
	holdScript  = redisdb.Load(sources, "task_hold")
	endScript   = redisdb.Load(sources, "task_end")
)

// Records are the records of tasks in Redis: the caller and its request, the replica that waits
// for the token, and the end. The token itself is not in there: it is taken under an
// Idempotency-Key, and pool.Tokens.Repeat returns it.
type Records struct{ db *redisdb.DB }

// NewRecords keeps records in a Redis that the caller opened, runs and closes.
func NewRecords(db *redisdb.DB) *Records {
	db.Declare(map[string]string{"compat": "hash"})
	return &Records{db}
}

// key is the key of a task, in a slot of its own.
func (s *Records) key(number string) string { return s.db.Prefix + ":compat:{" + number + "}" }

// Task is the part of a record that never changes.
type Task struct {
	Caller   string
	Identity captcha.ID
	Type     captcha.Type
	Guest    bool // no target had the identity
}

// TaskState is a record.
type TaskState struct {
	Task
	Made   time.Time     // on Redis' clock
	Left   time.Duration // rest of the record's life
	Order  string        // the order whose token served it; "" = none
	Failed string        // the reason if it ended without a token; else ""
	Mine   bool          // this replica holds it, for taskLease from now on
	Told   int           // number of questions since it was served
}

// Make makes a record; false if there is one of this number. held: this replica holds it.
func (s *Records) Make(ctx context.Context, number string, t Task, held bool) (fresh bool, err error) {
	holder, guest := "", 0
	if held {
		holder = s.db.Replica
	}
	if t.Guest {
		guest = 1
	}
	n, err := s.db.Number(ctx, makeScript, []string{s.key(number)}, t.Caller, string(t.Identity), string(t.Type), guest,
		holder, taskLease.Milliseconds(), taskLife.Milliseconds())
	return n == 1, err
}

// Visit notes a question for a task. This replica then holds it, unless it has ended or another
// live replica holds it. known is false if the caller has no such task.
func (s *Records) Visit(ctx context.Context, number, caller string) (state TaskState, known bool, err error) {
	return s.visit(ctx, number, caller, taskLease)
}

// Look is Visit without a change.
func (s *Records) Look(ctx context.Context, number, caller string) (state TaskState, known bool, err error) {
	return s.visit(ctx, number, caller, 0)
}

func (s *Records) visit(ctx context.Context, number, caller string, lease time.Duration) (state TaskState, known bool, err error) {
	reply, err := s.db.Eval(ctx, visitScript, []string{s.key(number)}, caller, s.db.Replica, lease.Milliseconds())
	if err != nil {
		return state, false, err
	}
	list, ok := reply.([]any)
	if ok && len(list) == 0 {
		return state, false, nil
	}
	if !ok || len(list) != 9 {
		return state, false, fmt.Errorf("compat: a task's record is %T with %d values", reply, len(list))
	}
	text := func(i int) string { s, _ := list[i].(string); return s }
	number64 := func(i int) int64 { n, _ := list[i].(int64); return n }
	return TaskState{
		Task: Task{Caller: caller, Identity: captcha.ID(text(0)), Type: captcha.Type(text(1)), Guest: text(2) == "1"},
		Made: time.UnixMilli(number64(3)).UTC(), Left: time.Duration(number64(4)) * time.Millisecond,
		Order: text(5), Failed: text(6), Mine: number64(7) == 1, Told: int(number64(8)),
	}, true, nil
}

// Hold renews the leases of tasks that this replica holds. over are those that it no longer
// holds: their callers have not asked for 30 s, or another replica holds them. After an error
// the state of the others is unknown.
func (s *Records) Hold(ctx context.Context, numbers []string) (over []string, err error) {
	calls := make([]*redisdb.Answer, len(numbers))
	s.db.Pipelined(ctx, holdScript, func(call func(keys []string, args ...any) *redisdb.Answer) {
		for i, number := range numbers {
			calls[i] = call([]string{s.key(number)}, s.db.Replica, taskLease.Milliseconds(), taskIdle.Milliseconds())
		}
	})
	for i, number := range numbers {
		held, failed := calls[i].Int64()
		switch {
		case failed != nil:
			err = failed
		case held != 1:
			over = append(over, number)
		}
	}
	return over, err
}

// LetGo ends the lease of a task that this replica holds, so that the replica of the next
// question can hold it.
func (s *Records) LetGo(ctx context.Context, number string) error {
	_, err := s.db.Number(ctx, holdScript, []string{s.key(number)}, s.db.Replica, 0, taskIdle.Milliseconds())
	return err
}

// Serve notes which order's token a task got. told: its caller gets it at once.
func (s *Records) Serve(ctx context.Context, number, order string, told bool) error {
	heard := 0
	if told {
		heard = 1
	}
	_, err := s.db.Number(ctx, endScript, []string{s.key(number)}, order, "", heard)
	return err
}

// Fail notes that a task ends without a token, and why.
func (s *Records) Fail(ctx context.Context, number, how string) error {
	_, err := s.db.Number(ctx, endScript, []string{s.key(number)}, "", how, 0)
	return err
}
