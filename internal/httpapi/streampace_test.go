package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/purchase"
)

// recordedStream is a stream without a network. recordedStream records the time of each event that
// a handler writes.
type recordedStream struct {
	header http.Header
	ended  chan struct{} // closed when the handler has returned

	mu     sync.Mutex
	text   strings.Builder // text of the unfinished event
	events []notedEvent
	broken error // error of each further write; nil = writes succeed
}

type notedEvent struct {
	at   time.Time
	text string
}

func (n *recordedStream) Header() http.Header              { return n.header }
func (n *recordedStream) WriteHeader(int)                  {}
func (n *recordedStream) SetWriteDeadline(time.Time) error { return nil }

func (n *recordedStream) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.broken != nil {
		return 0, n.broken
	}
	return n.text.Write(b)
}

func (n *recordedStream) failWrites() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = io.ErrClosedPipe
}

func (n *recordedStream) FlushError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, notedEvent{time.Now(), n.text.String()})
	n.text.Reset()
	return nil
}

func (n *recordedStream) since(at time.Time) []notedEvent {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.events, func(e notedEvent) bool { return e.at.After(at) })
	if i < 0 {
		return nil
	}
	return slices.Clone(n.events[i:])
}

// follow opens a stream. The function leave closes the stream.
func (d *daemon) follow(t *testing.T) (n *recordedStream, leave func()) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	request := d.request(t, "GET", "/status/stream", nil, bearer(keyAll)).WithContext(ctx)
	n = &recordedStream{header: http.Header{}, ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("a stream whose reader left ends with %v", err)
			}
		}()
		d.Handler().ServeHTTP(n, request)
	}()
	return n, func() { hangUp(); <-n.ended }
}

// checkInterval checks the interval between events and the beginning of each event's text. An
// interval may be up to a second too long.
func checkInterval(t *testing.T, what string, from time.Time, events []notedEvent, begin string, interval time.Duration) {
	t.Helper()
	if len(events) < 5 {
		t.Errorf("%s: %d events in a minute: %v", what, len(events), events)
	}
	for i, e := range events {
		if gap := e.at.Sub(from); !strings.HasPrefix(e.text, begin) || gap < interval || gap > interval+time.Second {
			t.Errorf("%s: event %d after %s: %.80q, want %q after %s", what, i+1, gap, e.text, begin, interval)
		}
		from = e.at
	}
}

// TestStreamPace: without a change of the status a stream has an event every 5 s, and a heartbeat
// only after 10 s without an event. The status is read only while streams are open.
func TestStreamPace(t *testing.T) {
	inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
		var stuck atomic.Bool
		unstuck := make(chan struct{})
		d.buyer.providers = func(context.Context, time.Time) []purchase.Status {
			if stuck.Load() {
				<-unstuck
			}
			return []purchase.Status{d.provider}
		}
		first, leaveFirst := d.follow(t)
		second, leaveSecond := d.follow(t)
		time.Sleep(time.Second)
		whole := first.since(time.Time{})
		if len(whole) != 2 || whole[0].text != ": poold\n\n" || !strings.HasPrefix(whole[1].text, "event: status\n") {
			t.Fatalf("the stream begins with %v", whole)
		}
		time.Sleep(time.Minute)
		checkInterval(t, "nothing changes", whole[1].at, first.since(whole[1].at), "event: change\n", 5*time.Second)

		// A provider does not answer, so there is no snapshot.
		stuck.Store(true)
		last := first.since(time.Time{})
		began := last[len(last)-1].at
		time.Sleep(time.Minute)
		checkInterval(t, "no snapshot comes", began, first.since(began), ": heartbeat\n", 10*time.Second)
		stuck.Store(false)
		close(unstuck)
		again := time.Now()
		time.Sleep(6 * time.Second)
		if events := first.since(again); len(events) == 0 || !strings.HasPrefix(events[0].text, "event: ") {
			t.Errorf("when snapshots come again: %v", events)
		}

		leaveFirst()
		left := time.Now()
		time.Sleep(time.Minute)
		if n := len(second.since(left)); n < 10 {
			t.Errorf("the other stream has %d events in a minute", n)
		}
		leaveSecond()
		synctest.Wait()
		read := d.stock.countCalls("survey")
		time.Sleep(5 * time.Second)
		equal(t, "surveys in the 5 s after the last stream", d.stock.countCalls("survey")-read, 0)
		time.Sleep(time.Minute)
		equal(t, "surveys in the minute after", d.stock.countCalls("survey")-read, 0)

		came := time.Now()
		third, leaveThird := d.follow(t)
		defer leaveThird()
		time.Sleep(time.Second)
		events := third.since(time.Time{})
		if len(events) != 2 || !strings.HasPrefix(events[1].text, "event: status\n") || events[1].at.Sub(came) > time.Second/2 {
			t.Errorf("the next stream begins with %v", events)
		}
	})
}

// TestStreamEndsWhenItsConnectionBreaks: when an event or a heartbeat cannot be written, the stream
// ends as it does after a hang-up. After the end of the last stream, the status is not read any
// more.
func TestStreamEndsWhenItsConnectionBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		stuck bool // there is no snapshot, so the next write is a heartbeat
		limit time.Duration
	}{"at an event": {false, 6 * time.Second}, "at a heartbeat": {true, 11 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
				unstuck := make(chan struct{})
				d.buyer.providers = func(context.Context, time.Time) []purchase.Status {
					if c.stuck {
						<-unstuck
					}
					return []purchase.Status{d.provider}
				}
				reader, leave := d.follow(t)
				defer leave()
				time.Sleep(time.Second)
				began := time.Now()
				reader.failWrites()
				select {
				case <-reader.ended:
				case <-time.After(time.Minute):
				}
				if took := time.Since(began); took > c.limit || d.logged.Count(`"status":499`) != 1 || d.logged.Count(`"level":"ERROR"`) > 0 {
					t.Errorf("after %s: %s", took, d.logged)
				}
				close(unstuck)
				time.Sleep(5 * time.Second) // time for the end of the current snapshot
				read := d.stock.countCalls("survey")
				time.Sleep(time.Minute)
				equal(t, "surveys without a reader", d.stock.countCalls("survey")-read, 0)
			})
		})
	}
}
