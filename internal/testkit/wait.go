package testkit

import (
	"testing"
	"time"
)

// Within fails the test unless the function `condition` returns true within the given limit. The limit is for an idle
// machine, and a busy one gets four times as long. At first, Within calls the function `condition` at short intervals,
// and later at longer intervals. The argument `what` describes the condition in the failure message.
func Within(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	pause, longest := 5*time.Millisecond, max(250*time.Millisecond, limit/100)
	for deadline := time.Now().Add(4 * limit); time.Now().Before(deadline); time.Sleep(pause) {
		if condition() {
			return
		}
		pause = min(pause*5/4, longest)
	}
	t.Fatalf("waited %v for %s in vain", 4*limit, what)
}

// InASecond repeats the function `do` until one run takes less than a second. A busy machine may need
// several attempts. After five attempts the test fails.
func InASecond(t testing.TB, do func()) {
	t.Helper()
	var took time.Duration
	for range 5 {
		began := time.Now()
		do()
		if took = time.Since(began); took < time.Second {
			return
		}
	}
	t.Errorf("took %v", took)
}

// Receive returns the next value of a channel. It fails the test if there is none within the limit. The argument `what`
// describes the value in the failure message.
func Receive[T any](t testing.TB, limit time.Duration, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(limit):
		t.Fatalf("waited %v for %s in vain", limit, what)
	}
	return value
}
