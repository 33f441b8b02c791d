package postgres

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/testkit"
)

// Sweep logs an error once, until the error changes or a sweep succeeds. Run logs outages, so Sweep
// does not. Sweep itself logs a dropped table, because perhaps only sweeps use this table.
func TestSweepLogsEachErrorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, right := errors.New("disk full"), errors.New("no right")
		away := &fault{reason: silence, down: true}
		steps := []struct {
			err   error
			lines int // number of log lines so far
		}{
			{nil, 0}, {full, 1}, {full, 1}, {nil, 1}, {full, 2}, {right, 3}, {right, 3}, {away, 3}, {right, 4},
			{noTable("captcha_history"), 5}, {nil, 5},
		}
		l := &testkit.Log{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var n atomic.Int64
		go (&DB{log: l.Logger()}).Sweep(ctx, time.Minute, func(context.Context) error {
			return steps[n.Add(1)-1].err
		})
		for i, step := range steps {
			time.Sleep(time.Minute)
			synctest.Wait()
			if lines := strings.Count(l.String(), "\n"); n.Load() != int64(i+1) || lines != step.lines {
				t.Errorf("after sweep %d (%v): %d sweeps and %d lines, want %d lines:\n%s", i+1, step.err, n.Load(), lines,
					step.lines, l.String())
			}
		}
		if !strings.Contains(l.String(), "the table captcha_history does not exist") {
			t.Errorf("the log does not name the table:\n%s", l.String())
		}
		cancel()
		synctest.Wait()
	})
}
