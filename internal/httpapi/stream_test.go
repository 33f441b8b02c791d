package httpapi

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/status"
	"poold/internal/targets"
	"poold/internal/testkit"
)

type stream struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Reader
}

// stream opens a stream. The headers have the same format as those of the method daemon.ask.
func (d *daemon) stream(t *testing.T, headers ...string) *stream {
	t.Helper()
	client := &http.Client{Transport: d.client.Transport} // without a timeout
	answer, err := client.Do(d.request(t, "GET", "/status/stream", nil, headers...))
	noError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return &stream{t: t, answer: answer, lines: bufio.NewReader(answer.Body)}
}

// refusal returns the complete response to a refused request. If the request was not refused, it
// returns only the status.
func (s *stream) refusal() answer {
	s.t.Helper()
	defer func() { _ = s.answer.Body.Close() }()
	a := answer{status: s.answer.StatusCode, header: s.answer.Header}
	if a.status == http.StatusOK {
		return a
	}
	body, err := io.ReadAll(s.answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a.body = string(body)
	return a
}

// event reads the next event. If the stream has ended, the result is false.
func (s *stream) event() (name string, data []byte, is bool) {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		switch {
		case err != nil:
			return "", nil, false
		case strings.HasPrefix(line, "event: "):
			name = strings.TrimSpace(line[len("event: "):])
		case strings.HasPrefix(line, "data: "):
			data = []byte(strings.TrimSpace(line[len("data: "):]))
		case line == "\n" && name != "":
			return name, data, true
		}
	}
}

// document reads events until the document meets the given condition.
func (s *stream) document(good func(name string, d *status.Document) bool) {
	s.t.Helper()
	for {
		name, data, is := s.event()
		if !is {
			s.t.Fatal("the stream has ended")
		}
		var d status.Document
		if err := json.Unmarshal(data, &d); err != nil {
			s.t.Fatalf("%v: %s", err, data)
		}
		if good(name, &d) {
			return
		}
	}
}

func (s *stream) waitForEnd(why string) {
	s.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, _, is := s.event(); !is {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		s.t.Errorf("%s: the stream goes on", why)
	}
}

// TestStreamSendsDocumentThenChanges: a stream first sends the whole document, and then sends the
// changes.
func TestStreamSendsDocumentThenChanges(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	s := d.stream(t)
	if h := s.answer.Header; s.answer.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" ||
		h.Get("X-Accel-Buffering") != "no" { // without this header nginx buffers the events
		t.Fatalf("%d %v", s.answer.StatusCode, h)
	}
	s.document(func(name string, got *status.Document) bool {
		if name != status.EventStatus || len(got.Targets) != 3 || got.Version != "1.2.3" {
			t.Errorf("at first %s: %+v", name, got)
		}
		return true
	})
	d.fill(t, "staging-login", 2)
	s.document(func(name string, got *status.Document) bool {
		if name != status.EventChange {
			return false
		}
		i := slices.IndexFunc(got.Targets, func(target status.Target) bool { return target.Name == "staging-login" })
		return i >= 0 && got.Targets[i].Fresh == 2
	})
	d.ask(t, "HEAD", "/status/stream").check(t, "HEAD", 405)
}

// TestMinutesCanBeOmitted: with minutes=0 the targets of the status lack hour.minutes, in the document,
// in the events of the stream and for a key that is limited to some targets. Nothing else differs. Other
// queries are refused.
func TestMinutesCanBeOmitted(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.stock.readStock(t, d.target("staging-login")) // counts begin with the first read
	d.fill(t, "staging-login", 3)
	d.ask(t, "GET", "/pool/staging-login/token", bearer(keyAll)).check(t, "a take", 200)
	for _, key := range []string{keyAll, keyStaging} {
		whole := parseAnswer[status.Document](t, d.ask(t, "GET", "/status.json", bearer(key)))
		text := d.ask(t, "GET", "/status.json?minutes=0", bearer(key))
		brief := parseAnswer[status.Document](t, text)
		i := len(whole.Targets) - 2
		if h := whole.Targets[i].Hour; h.Requests != 1 || len(h.Minutes) == 0 || strings.Contains(text.body, `"minutes"`) {
			t.Errorf("%+v, without minutes: %s", h, text.body)
		}
		for i := range whole.Targets {
			whole.Targets[i].Hour.Minutes, whole.Targets[i].NextExpiry, brief.Targets[i].NextExpiry = nil, nil, nil
		}
		brief.AsOf = whole.AsOf
		equal(t, "the rest", asJSON(t, brief), asJSON(t, whole))
	}
	events := func(query string) *stream {
		answer, err := (&http.Client{Transport: d.client.Transport}).Do(d.request(t, "GET", "/status/stream"+query, nil, bearer(keyAll)))
		noError(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return &stream{t: t, answer: answer, lines: bufio.NewReader(answer.Body)}
	}
	whole, brief := events(""), events("?minutes=0")
	for i := range 3 {
		for s, want := range map[*stream]bool{whole: true, brief: false} {
			s.document(func(name string, got *status.Document) bool {
				at := slices.IndexFunc(got.Targets, func(target status.Target) bool {
					return target.Name == "staging-login" && target.Hour.Requests == int64(1+i)
				})
				if at >= 0 && (got.Targets[at].Hour.Minutes != nil) != want {
					t.Errorf("event %s: %+v, want minutes: %v", name, got.Targets[at].Hour, want)
				}
				return at >= 0
			})
		}
		d.ask(t, "GET", "/pool/staging-login/token", bearer(keyAll))
	}
	for _, path := range []string{"/status.json", "/status/stream", "/status"} {
		for query, text := range map[string]string{
			"minutes=": "minutes must be 0", "minutes=1": "minutes must be 0", "minutes=00": "minutes must be 0", "minutes=-0": "minutes must be 0",
			"minutes=0&minutes=0": "more than once", "minute=0": "did you mean minutes?",
		} {
			checkProblem(t, path+"?"+query, d.ask(t, "GET", path+"?"+query, bearer(keyAll)), 400, kernel.CodeBadRequest, "", text)
		}
	}
}

// TestStreamEndsWithTheRightsOfItsKey: a stream contains the targets of its key, and ends if a
// reload changes the rights of the key. After any other reload the stream continues.
func TestStreamEndsWithTheRightsOfItsKey(t *testing.T) {
	set := sampleSet(allKeys()...)
	d := start(t, set, nil, nil)
	for key, want := range map[string]int{"": 401, "canary-key-wrong": 401} {
		if a := d.ask(t, "GET", "/status/stream", bearer(key)); a.status != want || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic") {
			t.Errorf("key %q: %d %v", key, a.status, a.header)
		}
	}
	all, staging, looker := d.stream(t, bearer(keyAll)), d.stream(t, bearer(keyStaging)), d.stream(t, bearer(keyStatus))
	for n, s := range map[int]*stream{3: all, 2: staging} {
		s.document(func(_ string, got *status.Document) bool {
			if len(got.Targets) != n || (got.Dedup == nil) != (n == 2) || n == 2 && got.Targets[0].Name != "staging-login" {
				t.Errorf("%d targets: %+v", n, got)
			}
			return true
		})
	}
	more := *set
	more.Server.Keys = slices.Clone(set.Server.Keys)
	more.Server.Keys[2].Scopes = []targets.Scope{targets.ScopeStatus, targets.ScopeAdmin}
	d.config.set.Store(&more)
	looker.waitForEnd("its key may do more, as the page must show")
	looker = d.stream(t, bearer(keyStatus))
	changed := *set
	changed.Server.Keys = slices.Clone(set.Server.Keys[:2]) // the last target is removed
	changed.Server.Keys[1].Targets = []string{"staging-login"}
	d.config.set.Store(&changed)
	looker.waitForEnd("its key is gone")
	staging.waitForEnd("its key sees less")
	d.fill(t, "checkout", 1)
	all.document(func(_ string, got *status.Document) bool { return len(got.Targets) > 0 && got.Targets[0].Fresh == 1 })
}

// TestStreamsAreBounded: a stream beyond the limit is refused. When a stream ends, another stream
// may begin.
func TestStreamsAreBounded(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	var open []*stream
	for range mostStreams {
		s := d.stream(t)
		if s.answer.StatusCode != 200 {
			t.Fatalf("%d streams are open: %d", len(open), s.answer.StatusCode)
		}
		open = append(open, s)
	}
	a := d.ask(t, "GET", "/status/stream")
	checkProblem(t, "one too many", a, 503, kernel.CodeStreams, "")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	_ = open[0].answer.Body.Close()
	testkit.Within(t, 20*time.Second, "room for one more", func() bool { return d.stream(t).answer.StatusCode == 200 })
	d.Stopping()
	for _, s := range open[1:] {
		s.waitForEnd("the daemon stops")
	}
	checkProblem(t, "after the stop began", d.ask(t, "GET", "/status/stream"), 503, kernel.CodeShuttingDown, "")
}

// TestStreamWithoutAReaderIsCutOff: a caller that does not read is disconnected, and does not delay
// other callers.
func TestStreamWithoutAReaderIsCutOff(t *testing.T) {
	deaf := &deafness{begun: make(chan struct{}), over: make(chan struct{}), cut: make(chan struct{})}
	var first atomic.Bool
	d := start(t, sampleSet(), func(conn net.Conn) net.Conn {
		if first.CompareAndSwap(false, true) {
			return &deafConn{Conn: conn, deaf: deaf}
		}
		return conn
	}, nil)
	conn := dial(t, d.addr)
	write(t, conn, "GET /status/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-deaf.begun
	s := d.stream(t)
	s.document(func(name string, _ *status.Document) bool { return name == status.EventStatus })
	close(deaf.over)
	select {
	case <-deaf.cut:
	case <-time.After(10 * time.Second):
		t.Error("it is not cut off")
	}
}

// deafness is the state of a connection that accepts no bytes.
type deafness struct {
	begun chan struct{} // closed at the first write
	over  chan struct{} // closed by the test when the write deadline is over
	cut   chan struct{} // closed when the connection closes
}

type deafConn struct {
	net.Conn

	deaf     *deafness
	deadline atomic.Pointer[time.Time]
	wrote    sync.Once
	closed   sync.Once
}

func (c *deafConn) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *deafConn) Write([]byte) (int, error) {
	c.wrote.Do(func() { close(c.deaf.begun) })
	if limit := c.deadline.Load(); limit == nil || time.Until(*limit) > kernel.WriteLimit {
		select {} // without a deadline the write would never end
	}
	<-c.deaf.over
	return 0, os.ErrDeadlineExceeded
}

func (c *deafConn) Close() error {
	c.closed.Do(func() { close(c.deaf.cut) })
	return c.Conn.Close()
}

func TestFrontLeadsBrowsersToTheStatus(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	if a := d.ask(t, "GET", "/", "Accept: text/html,*/*;q=0.8"); a.status != 302 || a.header.Get("Location") != "/status" || a.header.Get("Vary") != "Accept" {
		t.Errorf("%d %v", a.status, a.header)
	}
	checkProblem(t, "a program", d.ask(t, "GET", "/", "Accept: */*"), 404, kernel.CodeNotFound, "")
	if a := d.ask(t, "POST", "/", "Accept: text/html"); a.status != 405 || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", a.status, a.header)
	}
}
