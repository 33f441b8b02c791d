package compat

import (
	"context"
	"embed"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// taskLife is the life of a record.
	taskLife = 15 * time.Minute
	// taskLease is the life of a lease that is not renewed. A ticket has the same life.
	taskLease = 2 * time.Second
	// taskIdle is how long a task waits for its token after its last poll.
	taskIdle = 30 * time.Second
)

//go:embed lua/*.lua
var sources embed.FS

var scripts = redisdb.LoadScripts(sources, nil)

// Records contains the records of tasks in Redis. A record contains the caller, the identity, the
// replica that waits for the token, and the end of the task. A record does not contain the token:
// pool.Tokens.Repeat returns the token by its Idempotency-Key.
type Records struct{ db *redisdb.DB }

// NewRecords returns the records in a Redis database. The caller opens, runs and closes the database.
func NewRecords(db *redisdb.DB) *Records {
	return &Records{db}
}

// keys returns the Redis keys of a task. The keys distribute the tasks over the slots of a Redis
// cluster.
func (s *Records) keys(number string) redisdb.Keys {
	return redisdb.Keys{"task": s.db.Prefix + ":compat:{" + number + "}"}
}

// Task is the part of a record that never changes.
type Task struct {
	Caller   string
	Identity captcha.ID
	Type     captcha.Type
	Guest    bool // no target had the identity at the submission
}

// TaskState is the content of a record at the time of a poll.
type TaskState struct {
	Task
	Made          time.Time     // time of the submission, on Redis' clock
	Left          time.Duration // rest of the record's life
	Order         string        // the order whose token the task got; "" = none
	Failed        string        // why the task ended without a token; "" = the task has not failed
	HeldHere      bool          // this replica holds the task, for taskLease from now on
	PollsSinceEnd int           // number of polls since the task got its token
}

// Make creates a record. Make returns false if the number already belongs to another task. If held
// is true, this replica holds the new task.
func (s *Records) Make(ctx context.Context, number string, t Task, held bool) (fresh bool, err error) {
	holder := ""
	if held {
		holder = s.db.Replica
	}
	n, err := s.db.CallNumber(ctx, scripts.Get("task_make"), s.keys(number), redisdb.Args{
		"caller": t.Caller, "identity": t.Identity, "type": t.Type, "guest": t.Guest,
		"holder": holder, "lease_ms": taskLease, "life_ms": taskLife,
	})
	return n == 1, err
}

// Visit records a poll of a task. After Visit, this replica holds the task, unless the task has
// ended or another live replica holds it. If the caller has no such task, the result known is
// false.
func (s *Records) Visit(ctx context.Context, number, caller string) (state TaskState, known bool, err error) {
	return s.visit(ctx, number, caller, taskLease)
}

// Look reads a task as Visit does, but changes nothing.
func (s *Records) Look(ctx context.Context, number, caller string) (state TaskState, known bool, err error) {
	return s.visit(ctx, number, caller, 0)
}

func (s *Records) visit(ctx context.Context, number, caller string, lease time.Duration) (state TaskState, known bool, err error) {
	r, err := s.db.Call(ctx, scripts.Get("task_visit"), s.keys(number), redisdb.Args{"caller": caller, "replica": s.db.Replica, "lease_ms": lease})
	if err != nil || len(r.List()) == 0 {
		return state, false, err
	}
	state = TaskState{
		Task: Task{Caller: caller, Identity: captcha.ID(r.Text("identity")), Type: captcha.Type(r.Text("type")), Guest: r.Text("guest") == "1"},
		Made: time.UnixMilli(int64(r.Int("made"))).UTC(), Left: r.Duration("left_ms"),
		Order: r.Text("order"), Failed: r.Text("failed"), HeldHere: r.Is("held"), PollsSinceEnd: r.Int("asked"),
	}
	return state, r.Err == nil, r.Err
}

// Hold renews the leases of tasks that this replica holds. Hold returns the tasks that this replica
// no longer holds: tasks that were not polled for 30 s, and tasks that another replica holds. After
// an error the state of all other tasks is unknown.
func (s *Records) Hold(ctx context.Context, numbers []string) (notHeld []string, err error) {
	calls := make([]*redisdb.Answer, len(numbers))
	s.db.Pipelined(ctx, scripts.Get("task_hold"), func(call redisdb.Add) {
		for i, number := range numbers {
			calls[i] = call(s.keys(number), redisdb.Args{"replica": s.db.Replica, "lease_ms": taskLease, "idle_ms": taskIdle})
		}
	})
	for i, number := range numbers {
		held, failed := calls[i].Int64()
		switch {
		case failed != nil:
			err = failed
		case held != 1:
			notHeld = append(notHeld, number)
		}
	}
	return notHeld, err
}

// Release ends the lease of a task that this replica holds, so that the replica that receives the next
// poll can hold the task.
func (s *Records) Release(ctx context.Context, number string) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("task_hold"), s.keys(number), redisdb.Args{"replica": s.db.Replica, "lease_ms": 0, "idle_ms": taskIdle})
	return err
}

// Serve records the order whose token a task got. The argument delivered is true if a pending poll
// gets the token immediately.
func (s *Records) Serve(ctx context.Context, number, order string, delivered bool) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("task_end"), s.keys(number), redisdb.Args{"order": order, "failed": "", "delivered": delivered})
	return err
}

// Fail records that a task ends without a token. The reason is in the argument `how`.
func (s *Records) Fail(ctx context.Context, number, how string) error {
	_, err := s.db.CallNumber(ctx, scripts.Get("task_end"), s.keys(number), redisdb.Args{"order": "", "failed": how, "delivered": false})
	return err
}
