package compat

import (
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// inBubble runs a test with the records of two replicas and with a task that the first replica holds.
func inBubble(t *testing.T, test func(t *testing.T, redis *redistest.Bubble, one, two *Records, number string, task Task)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		p := redistest.Place{Addresses: redistest.BubbleAddress, Dial: redis.Dial}
		one, two := records(t, p), records(t, p)
		task := Task{Caller: "key\x00a\x00", Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: "task"}.ID(), Type: "turnstile"}
		const number = "12345678901"
		if fresh, err := one.Make(t.Context(), number, task, true); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		test(t, redis, one, two, number, task)
	})
}

// A lease lasts for two seconds after its last renewal, but not longer than 30 s after the last
// poll. The record lasts for 15 min after its creation.
func TestTaskLeasesAndRecordsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, redis *redistest.Bubble, one, two *Records, number string, task Task) {
		hold := func(held bool) {
			t.Helper()
			over, err := one.Hold(t.Context(), []string{number})
			if err != nil || len(over) == 0 != held {
				t.Fatalf("%v are over, %v", over, err)
			}
		}
		visit := func(s *Records, mine bool) {
			t.Helper()
			state, known, err := s.Visit(t.Context(), number, task.Caller)
			if err != nil || !known || state.HeldHere != mine {
				t.Fatalf("%+v, %v, %v; want it held: %v", state, known, err, mine)
			}
		}
		time.Sleep(taskLease - time.Millisecond)
		visit(two, false)
		hold(true)
		time.Sleep(taskLease - time.Millisecond)
		visit(two, false)
		time.Sleep(time.Millisecond)
		visit(two, true)
		visit(one, false)
		time.Sleep(taskLease)
		visit(one, true)
		for range 29 {
			time.Sleep(time.Second)
			hold(true)
		}
		visit(one, true) // a poll
		time.Sleep(time.Second)
		hold(true)
		time.Sleep(taskIdle - time.Second)
		hold(false)
		if left := redis.TTL(one.keys(number)["task"]); left >= taskLife-time.Minute || left <= taskLife-2*time.Minute {
			t.Errorf("the record lives for %v", left)
		}
	})
}

// If a poll is pending when a task gets its token, this poll counts as the first delivery. The end
// of the task also ends the lease.
func TestServingATaskCountsItsAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redistest.Bubble, one, _ *Records, number string, task Task) {
		if err := one.Serve(t.Context(), number, "order", true); err != nil {
			t.Fatal(err)
		}
		if state, known, err := one.Look(t.Context(), number, task.Caller); err != nil || !known || state.PollsSinceEnd != 1 || state.Order != "order" {
			t.Errorf("%+v, %v, %v", state, known, err)
		}
		if over, err := one.Hold(t.Context(), []string{number}); err != nil || len(over) != 1 {
			t.Errorf("%v are over, %v", over, err)
		}
		if state, known, err := one.Visit(t.Context(), number, task.Caller); err != nil || !known || state.PollsSinceEnd != 2 {
			t.Errorf("%+v, %v, %v", state, known, err)
		}
	})
}

// If Redis' clock is set back by less than 10 s, another replica's lease stays valid. After a
// larger step the age of the lease is unknown, and another replica takes the task over.
func TestTaskLeasesAfterRedisClockIsSetBack(t *testing.T) {
	for _, c := range []struct {
		back  time.Duration
		stays bool
	}{{9 * time.Second, true}, {time.Hour, false}} {
		inBubble(t, func(t *testing.T, redis *redistest.Bubble, _, two *Records, number string, task Task) {
			redis.SetTime(time.Now().Add(-c.back))
			state, known, err := two.Visit(t.Context(), number, task.Caller)
			if err != nil || !known || state.HeldHere == c.stays {
				t.Errorf("back by %v: %+v, %v, %v", c.back, state, known, err)
			}
		})
	}
}
