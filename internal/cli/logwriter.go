package cli

import (
	"io"
	"sync/atomic"
	"time"
)

// mostLines is how many log lines wait for a slow reader of stderr. Further lines are dropped, because a request
// must not wait for the reader.
const mostLines = 10_000

// LogWriter writes log lines in the background. It is safe for concurrent use.
type LogWriter struct {
	lines      chan []byte
	stop, done chan struct{}
	dropped    atomic.Int64
}

// Write queues a line. It never blocks and never fails.
func (w *LogWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- append([]byte(nil), line...):
	default:
		w.dropped.Add(1)
	}
	return len(line), nil
}

// Dropped returns the number of lines that were dropped.
func (w *LogWriter) Dropped() int64 { return w.dropped.Load() }

// Close writes the queued lines, for at most a second. It must be called once; later lines are not written.
func (w *LogWriter) Close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(time.Second):
	}
}

// run writes the lines until Close.
func (w *LogWriter) run(to io.Writer) {
	defer close(w.done)
	for {
		select {
		case line := <-w.lines:
			_, _ = to.Write(line) // an error cannot be reported anywhere
		case <-w.stop:
			if len(w.lines) == 0 {
				return
			}
		}
	}
}
