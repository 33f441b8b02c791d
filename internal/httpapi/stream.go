package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/httpapi/page"
	"poold/internal/pool"
	"poold/internal/status"
)

const (
	// mostStreams limits the number of open streams. Each stream keeps a connection and a goroutine
	// until its reader leaves.
	mostStreams = 256
	// checkEvery is the interval between two checks of a stream's key.
	checkEvery = time.Second
	// heartbeatEvery is the interval of heartbeats while the status does not change.
	heartbeatEvery = 10 * time.Second
)

// streams contains the route GET /status/stream, which sends the changes of the status to its readers.
type streams struct {
	feed     *status.Feed
	gate     *gate
	open     *atomic.Int64
	stopping <-chan struct{} // closed when the daemon stops
}

// follow sends server-sent events until the caller hangs up, the daemon stops, or the rights of the
// caller's key change. A caller that does not read its stream is disconnected.
func (s *streams) follow(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	minutes, err := page.WantsMinutes(r)
	if err != nil {
		return err
	}
	select {
	case <-s.stopping:
		return pool.ErrClosed
	default:
	}
	defer s.open.Add(-1)
	if s.open.Add(1) > mostStreams {
		return kernel.NewProblem(kernel.CodeStreams, "the maximum of open streams is reached; poll /status.json instead").RetrySoon()
	}
	reader := s.feed.Follow(strings.Join(c.Caller.Globs, "\n"), c.Caller.Sees(), minutes)
	defer reader.Close()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // without this header nginx buffers events
	out := eventWriter{w: w, control: http.NewResponseController(w)}
	if err := out.comment("poold"); err != nil {
		return err
	}
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return kernel.ErrHungUp
		case <-s.stopping:
			return nil
		case <-ticker.C:
			if !s.gate.sameRights(c, r) {
				return nil
			}
			if time.Since(out.last) >= heartbeatEvery {
				if err := out.comment("heartbeat"); err != nil {
					return err
				}
			}
		case <-reader.Changed():
			if !s.gate.sameRights(c, r) {
				return nil
			}
			if err := out.send(reader.Event()); err != nil {
				return err
			}
		}
	}
}

// sameRights reports whether the caller still has the same rights as on admission.
func (g *gate) sameRights(c *kernel.Call, r *http.Request) bool {
	now, caller, err := g.reauthenticate(c, r)
	if now == nil {
		return true
	}
	if err != nil || caller.StableName != c.Caller.StableName || !slices.Equal(caller.Scopes, c.Caller.Scopes) || !slices.Equal(caller.Globs, c.Caller.Globs) {
		return false
	}
	c.Access, c.Caller = now, caller
	return true
}

// eventWriter writes server-sent events, each within kernel.WriteLimit.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    time.Time // time of the last write
}

func (e *eventWriter) send(event status.Event) error {
	return e.write("event: "+event.Name+"\ndata: ", event.Data)
}

// comment writes an SSE comment, which readers of the stream ignore.
func (e *eventWriter) comment(text string) error { return e.write(": "+text, nil) }

func (e *eventWriter) write(begin string, data []byte) error {
	e.last = time.Now()
	kernel.AnswerWithin(e.w, kernel.WriteLimit)
	for _, part := range [][]byte{[]byte(begin), data, []byte("\n\n")} {
		if _, err := e.w.Write(part); err != nil {
			return errors.Join(kernel.ErrHungUp, err)
		}
	}
	if err := e.control.Flush(); err != nil {
		return errors.Join(kernel.ErrHungUp, err)
	}
	return nil
}
