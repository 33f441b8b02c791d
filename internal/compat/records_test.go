package compat

import (
	"log/slog"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func records(t *testing.T, p redistest.Place) *Records {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{
		Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial, Prefix: "test-" + t.Name(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return NewRecords(db)
}

// Records work on every kind of server.
func TestRecords(t *testing.T) {
	redistest.OnEvery(t, map[string]func(*testing.T, redistest.Place){"ATaskOfAClient": testATaskOfAClient}, nil)
}

// Only the caller of a task sees the task. One replica at a time holds a task. A task ends once.
func testATaskOfAClient(t *testing.T, p redistest.Place) {
	one, two, id := records(t, p), records(t, p), captcha.Identity{Type: captcha.Turnstile, Sitekey: "task"}.ID()
	task := Task{Caller: "key\x00a\x00", Identity: id, Type: "turnstile", Guest: true}
	const number = "12345678901"
	make := func(held, want bool) {
		t.Helper()
		if fresh, err := one.Make(t.Context(), number, task, held); err != nil || fresh != want {
			t.Fatalf("made: %v, %v", fresh, err)
		}
	}
	visit := func(s *Records, caller string) (TaskState, bool) {
		t.Helper()
		state, known, err := s.Visit(t.Context(), number, caller)
		if err != nil {
			t.Fatal(err)
		}
		return state, known
	}
	hold := func(s *Records, want int) {
		t.Helper()
		if over, err := s.Hold(t.Context(), []string{number}); err != nil || len(over) != want {
			t.Fatalf("%v are over, %v", over, err)
		}
	}

	make(true, true)
	make(false, false) // the record already exists
	if state, known := visit(one, "key\x00b\x00"); known {
		t.Fatalf("another caller sees %+v", state)
	}
	if state, known := visit(two, task.Caller); !known || state.HeldHere || state.Task != task || state.Left <= 14*time.Minute || time.Since(state.Made).Abs() > time.Minute {
		t.Fatalf("at the other replica: %+v, %v", state, known)
	}
	if state, _ := visit(one, task.Caller); !state.HeldHere {
		t.Fatalf("at its holder: %+v", state)
	}
	hold(one, 0)
	hold(two, 1)
	if err := two.Release(t.Context(), number); err != nil {
		t.Fatal(err)
	}
	hold(one, 0) // the other replica does not hold the task
	if err := one.Release(t.Context(), number); err != nil {
		t.Fatal(err)
	}
	if state, _ := visit(two, task.Caller); !state.HeldHere {
		t.Fatalf("nobody held it: %+v", state)
	}
	hold(one, 1)

	if err := two.Serve(t.Context(), number, "order", false); err != nil {
		t.Fatal(err)
	}
	if err := one.Fail(t.Context(), number, "unsolvable"); err != nil {
		t.Fatal(err)
	}
	hold(two, 1)
	for told := 1; told <= 2; told++ {
		if state, _ := visit(one, task.Caller); state.HeldHere || state.Order != "order" || state.Failed != "" || state.PollsSinceEnd != told {
			t.Fatalf("after it was served: %+v", state)
		}
		if state, known, err := one.Look(t.Context(), number, task.Caller); err != nil || !known || state.PollsSinceEnd != told {
			t.Fatalf("looked at: %+v, %v, %v", state, known, err)
		}
	}
	for _, end := range []error{one.Serve(t.Context(), "9", "order", true), one.Fail(t.Context(), "9", "refused")} {
		if _, known, err := one.Look(t.Context(), "9", task.Caller); end != nil || err != nil || known {
			t.Fatalf("a task that nobody made: %v, %v, %v", known, end, err)
		}
	}
}
