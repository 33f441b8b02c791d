package testkit

import (
	"context"
	"sync"
	"testing"
)

// Run runs functions in the background until stop is called or the test ends. The test fails if one returns an error.
func Run(t testing.TB, functions ...func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range functions {
		group.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("running: %v", err)
			}
		})
	}
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}
