package pool

import (
	"context"
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
	holder := ""
	if held {
		holder = s.replica
	}
	n, err := s.callNumber(ctx, "task_make", s.compat(number), args{
		"caller": t.Caller, "identity": t.Identity, "type": t.Type, "guest": t.Guest,
		"holder": holder, "lease_ms": taskLease, "life_ms": taskLife,
	})
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
	r, err := s.call(ctx, "task_visit", s.compat(number), args{"caller": caller, "replica": s.replica, "lease_ms": lease})
	if err != nil || len(r.list) == 0 {
		return state, false, err
	}
	state = TaskState{
		Task: Task{Caller: caller, Identity: captcha.ID(r.text("identity")), Type: captcha.Type(r.text("type")), Guest: r.text("guest") == "1"},
		Made: time.UnixMilli(int64(r.moment("made"))).UTC(), Left: r.ms("left_ms"),
		Order: r.text("order"), Failed: r.text("failed"), Mine: r.is("held"), Told: r.int("asked"),
	}
	return state, r.err == nil, r.err
}

// Hold renews the leases of tasks that this replica holds. over are those that it does not
// hold any more: their callers have not asked for 30 s, or another replica has them. An
// error says that nothing is known.
func (s *Tasks) Hold(ctx context.Context, numbers []string) (over []string, err error) {
	calls := make([]*redis.Cmd, len(numbers))
	s.pipelined(ctx, "task_hold", func(call func(any, args, ...any) *redis.Cmd) {
		for i, number := range numbers {
			calls[i] = call(s.compat(number), args{"replica": s.replica, "lease_ms": taskLease, "idle_ms": taskIdle})
		}
	})
	for i, number := range numbers {
		held, failed := calls[i].Int64()
		switch {
		case failed != nil:
			err = down(failed)
		case held != 1:
			over = append(over, number)
		}
	}
	return over, err
}

// LetGo ends the lease of a task that this replica holds, so that the next question at any
// replica begins anew.
func (s *Tasks) LetGo(ctx context.Context, number string) error {
	_, err := s.callNumber(ctx, "task_hold", s.compat(number), args{"replica": s.replica, "lease_ms": 0, "idle_ms": taskIdle})
	return err
}

// Serve notes which order's token a task got. told: its caller hears of it at once.
func (s *Tasks) Serve(ctx context.Context, number, order string, told bool) error {
	_, err := s.callNumber(ctx, "task_end", s.compat(number), args{"order": order, "failed": "", "heard": told})
	return err
}

// Fail notes that a task ends without a token, and how.
func (s *Tasks) Fail(ctx context.Context, number, how string) error {
	_, err := s.callNumber(ctx, "task_end", s.compat(number), args{"order": "", "failed": how, "heard": false})
	return err
}
