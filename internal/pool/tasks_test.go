package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/redisdb"
)

// A task of the compatible endpoints is its caller's, one replica at a time holds it, and it
// ends once.
func testATaskOfAClient(t *testing.T, o Options) {
	one, two, id := open(t, o), open(t, o), identity("task")
	task := Task{Caller: "key\x00a\x00", Identity: id, Type: "turnstile", Guest: true}
	const number = "12345678901"
	make := func(held, want bool) {
		t.Helper()
		if fresh, err := one.Tasks.Make(t.Context(), number, task, held); err != nil || fresh != want {
			t.Fatalf("made: %v, %v", fresh, err)
		}
	}
	visit := func(s *replica, caller string) (TaskState, bool) {
		t.Helper()
		state, known, err := s.Tasks.Visit(t.Context(), number, caller)
		if err != nil {
			t.Fatal(err)
		}
		return state, known
	}
	hold := func(s *replica, want int) {
		t.Helper()
		if over, err := s.Tasks.Hold(t.Context(), []string{number}); err != nil || len(over) != want {
			t.Fatalf("%v are over, %v", over, err)
		}
	}

	make(true, true)
	make(false, false) // there is one
	if state, known := visit(one, "key\x00b\x00"); known {
		t.Fatalf("another caller sees %+v", state)
	}
	if state, known := visit(two, task.Caller); !known || state.Mine || state.Task != task || state.Left <= 14*time.Minute || time.Since(state.Made).Abs() > time.Minute {
		t.Fatalf("at the other replica: %+v, %v", state, known)
	}
	if state, _ := visit(one, task.Caller); !state.Mine {
		t.Fatalf("at its holder: %+v", state)
	}
	hold(one, 0)
	hold(two, 1)
	if err := two.Tasks.LetGo(t.Context(), number); err != nil {
		t.Fatal(err)
	}
	hold(one, 0) // it was not the other one's to let go
	if err := one.Tasks.LetGo(t.Context(), number); err != nil {
		t.Fatal(err)
	}
	if state, _ := visit(two, task.Caller); !state.Mine {
		t.Fatalf("nobody held it: %+v", state)
	}
	hold(one, 1)

	if err := two.Tasks.Serve(t.Context(), number, "order", false); err != nil {
		t.Fatal(err)
	}
	if err := one.Tasks.Fail(t.Context(), number, "unsolvable"); err != nil {
		t.Fatal(err)
	}
	hold(two, 1)
	for told := 1; told <= 2; told++ {
		if state, _ := visit(one, task.Caller); state.Mine || state.Order != "order" || state.Failed != "" || state.Told != told {
			t.Fatalf("after it was served: %+v", state)
		}
		if state, known, err := one.Tasks.Look(t.Context(), number, task.Caller); err != nil || !known || state.Told != told {
			t.Fatalf("looked at: %+v, %v, %v", state, known, err)
		}
	}
	for _, end := range []error{one.Tasks.Serve(t.Context(), "9", "order", true), one.Tasks.Fail(t.Context(), "9", "refused")} {
		if _, known, err := one.Tasks.Look(t.Context(), "9", task.Caller); end != nil || err != nil || known {
			t.Fatalf("a task that nobody made: %v, %v, %v", known, end, err)
		}
	}
}

// What an Idempotency-Key got is told without a take, and a caller that holds a ticket is
// told so.
func testRepeat(t *testing.T, o Options) {
	s, id := open(t, o), identity("repeat")
	if _, known, err := s.Repeat(t.Context(), id, "caller\x00k", "caller\x00"); known || err != nil {
		t.Fatalf("before: %v, %v", known, err)
	}
	parked, got := make(chan struct{}), make(chan Token, 1)
	go func() {
		token, err := s.Take(t.Context(), Request{
			ID: id, Idempotency: "caller\x00k", Caller: "caller\x00", Wait: 20 * time.Second, MaxWaiting: 9, Parked: func() { close(parked) },
		})
		if err != nil {
			t.Error(err)
		}
		got <- token
	}()
	<-parked
	if waiting := look(t, s, id).Waiting; waiting != 1 {
		t.Fatalf("%d wait", waiting)
	}
	// One that comes to the same ticket is told at once.
	second := make(chan struct{})
	if _, err := s.Take(t.Context(), Request{
		ID: id, Idempotency: "caller\x00k", Caller: "caller\x00", Wait: time.Millisecond, MaxWaiting: 9, Parked: func() { close(second) },
	}); !isEmpty(err) {
		t.Fatalf("the second: %v", err)
	}
	<-second
	stock(t, s, id, 1, 0, time.Minute)
	token := <-got
	again, known, err := s.Repeat(t.Context(), id, "caller\x00k", "caller\x00")
	if err != nil || !known || again.Value != token.Value || again.ID != token.ID || again.Source != FromReplay || !again.Born.Equal(token.Born) ||
		again.TTL <= 0 || again.TTL > time.Minute {
		t.Fatalf("%+v, %v, %v; was %+v", again, known, err, token)
	}
	if f := look(t, s, id).Figures; f.Requests != 1 || f.Waited != 1 || f.Replays != 0 {
		t.Fatalf("figures: %+v", f)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, known, err := s.Repeat(gone, id, "caller\x00k", "caller\x00"); !errors.Is(err, redisdb.ErrDown) || known {
		t.Fatalf("without an answer: %v", err)
	}
}
