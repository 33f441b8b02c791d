package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

const (
	// taskLife is how long a task can be asked for.
	taskLife = 15 * time.Minute
	// taskLease is how long a replica holds a task without renewing it, as long as the
	// ticket of a replica that is gone.
	taskLease = 2 * time.Second
	// taskIdle is how long after its caller's last question a task is held.
	taskIdle = 30 * time.Second
)

// Tasks are the records of the compatible endpoints' tasks: who asked for what, which
// replica waits for its token, and how it ended. The token itself is not in there: it is
// taken under an Idempotency-Key, and told by Tokens.Repeat.
type Tasks struct{ *client }

// Task is what a record says from its beginning.
type Task struct {
	Caller   string
	Identity captcha.ID
	Type     captcha.Type
	Guest    bool // no target had the identity
}

// TaskState is what is known of a task.
type TaskState struct {
	Task
	Made   time.Time     // on Redis' clock
	Left   time.Duration // until it is forgotten
	Order  string        // that served it; "" = it was not
	Failed string        // how it ended without a token; "" = it did not
	Mine   bool          // this replica holds it, from now on for taskLease
	Told   int           // how often it was asked for since it was served
}

// Make makes a record; false where there is one of this number. held: this replica holds it.
func (s *Tasks) Make(ctx context.Context, number string, t Task, held bool) (fresh bool, err error) {
	holder, guest := "", 0
	if held {
		holder = s.replica
	}
	if t.Guest {
		guest = 1
	}
	n, err := s.db.Number(ctx, s.scripts.task.make, []string{s.compat(number)}, t.Caller, string(t.Identity), string(t.Type), guest,
		holder, taskLease.Milliseconds(), taskLife.Milliseconds())
	return n == 1, err
}

// Visit notes a question for a task, and lets this replica hold it where no living one
// does and it has not ended. known is false where the caller has no such task.
func (s *Tasks) Visit(ctx context.Context, number, caller string) (state TaskState, known bool, err error) {
	return s.visit(ctx, number, caller, taskLease)
}

// Look is Visit without a trace.
func (s *Tasks) Look(ctx context.Context, number, caller string) (state TaskState, known bool, err error) {
	return s.visit(ctx, number, caller, 0)
}

func (s *Tasks) visit(ctx context.Context, number, caller string, lease time.Duration) (state TaskState, known bool, err error) {
	reply, err := s.db.Eval(ctx, s.scripts.task.visit, []string{s.compat(number)}, caller, s.replica, lease.Milliseconds())
	if err != nil {
		return state, false, err
	}
	list, ok := reply.([]any)
	if ok && len(list) == 0 {
		return state, false, nil
	}
	if !ok || len(list) != 9 {
		return state, false, fmt.Errorf("pool: a task's record is %T with %d values", reply, len(list))
	}
	text := func(i int) string { s, _ := list[i].(string); return s }
	number64 := func(i int) int64 { n, _ := list[i].(int64); return n }
	return TaskState{
		Task: Task{Caller: caller, Identity: captcha.ID(text(0)), Type: captcha.Type(text(1)), Guest: text(2) == "1"},
		Made: time.UnixMilli(number64(3)).UTC(), Left: time.Duration(number64(4)) * time.Millisecond,
		Order: text(5), Failed: text(6), Mine: number64(7) == 1, Told: int(number64(8)),
	}, true, nil
}

// Hold renews the leases of tasks that this replica holds. over are those that it does not
// hold any more: their callers have not asked for 30 s, or another replica has them. An
// error says that nothing is known.
func (s *Tasks) Hold(ctx context.Context, numbers []string) (over []string, err error) {
	calls := make([]*redis.Cmd, len(numbers))
	s.db.Pipelined(ctx, s.scripts.task.hold, func(call func(keys []string, args ...any) *redis.Cmd) {
		for i, number := range numbers {
			calls[i] = call([]string{s.compat(number)}, s.replica, taskLease.Milliseconds(), taskIdle.Milliseconds())
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

// LetGo ends the lease of a task that this replica holds, so that the next question at any
// replica begins anew.
func (s *Tasks) LetGo(ctx context.Context, number string) error {
	_, err := s.db.Number(ctx, s.scripts.task.hold, []string{s.compat(number)}, s.replica, 0, taskIdle.Milliseconds())
	return err
}

// Serve notes which order's token a task got. told: its caller hears of it at once.
func (s *Tasks) Serve(ctx context.Context, number, order string, told bool) error {
	heard := 0
	if told {
		heard = 1
	}
	_, err := s.db.Number(ctx, s.scripts.task.end, []string{s.compat(number)}, order, "", heard)
	return err
}

// Fail notes that a task ends without a token, and how.
func (s *Tasks) Fail(ctx context.Context, number, how string) error {
	_, err := s.db.Number(ctx, s.scripts.task.end, []string{s.compat(number)}, "", how, 0)
	return err
}
