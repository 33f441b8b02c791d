package simulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pingTimeout bounds the delivery of one pingback.
const pingTimeout = 5 * time.Second

// pingback is where and how a caller wants to be told of a task's end.
type pingback struct {
	url  string // "" = not at all
	form pingKind
}

// pingKind is the shape of a pingback.
type pingKind int

const (
	pingQuery pingKind = iota // GET, id and code in the query: captchaai
	pingForm                  // POST, id and code as a form: 2captcha
	pingJSON                  // POST, the answer of getTaskResult: the tasks protocol
)

// life owns what outlives a call: pingbacks and connections that a fault
// holds. Close ends one life and begins the next.
type life struct {
	stop    chan struct{}
	running sync.WaitGroup
	pings   map[int64]scheduled // by task number; guarded by Service.mu
}

// scheduled is a pingback that is not delivered yet.
type scheduled struct {
	timer  *time.Timer // nil: a call delivers it
	cancel context.CancelFunc
}

func newLife() *life {
	return &life{stop: make(chan struct{}), pings: make(map[int64]scheduled)}
}

// stopped is closed when Close is called next.
func (s *Service) stopped() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.stop
}

// Close drops the pingbacks that are not delivered yet, lets go of the calls
// that faults hold, and waits for its goroutines. Books and faults stay; the
// service can be used again, as if it had been out of order for a while.
func (s *Service) Close() {
	s.mu.Lock()
	old := s.life
	s.life = newLife()
	pings := old.pings
	old.pings = nil
	s.mu.Unlock()

	close(old.stop)
	for _, p := range pings {
		p.cancel()
		if p.timer != nil && p.timer.Stop() {
			old.running.Done() // its function will not run
		}
	}
	old.running.Wait()
}

// pingbackClient keeps no connection and follows no redirect, and it does not
// go through a proxy that the environment names.
func pingbackClient() *http.Client {
	return &http.Client{
		Timeout:       pingTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pinged reports whether a task's pingback is among those that are sent.
func (s *Service) pinged(t *task) bool {
	return s.opts.PingShare == 0 || dice(t.lot, pingStream).Float64() < s.opts.PingShare
}

// schedulePingLocked has a task's pingback delivered when it is due. With
// Options.PingEarly it gives a function instead, for the caller to deliver it.
func (s *Service) schedulePingLocked(t *task, p pingback, at time.Time) (deliver func()) {
	// It outlives the call that ordered it, so it has a context of its own.
	ctx, cancel := context.WithCancel(context.Background())
	life := s.life
	life.running.Add(1)
	run := func() {
		defer life.running.Done()
		defer cancel()
		for range 1 + s.opts.PingRepeat {
			if ctx.Err() != nil {
				break
			}
			s.deliver(ctx, t, p)
		}
		s.mu.Lock()
		delete(life.pings, t.number)
		s.mu.Unlock()
	}
	if s.opts.PingEarly {
		life.pings[t.number] = scheduled{cancel: cancel}
		return run
	}
	timer := time.AfterFunc(t.due.Sub(at)+s.opts.PingDelay, run)
	life.pings[t.number] = scheduled{timer: timer, cancel: cancel}
	return nil
}

// deliver sends one pingback and keeps the books about it.
func (s *Service) deliver(ctx context.Context, t *task, p pingback) {
	s.mu.Lock()
	t.pings++
	done := outcome{task: *t}
	s.mu.Unlock()
	err := s.ping(ctx, &done, p)
	if err == nil {
		s.mu.Lock()
		t.pinged++
		s.mu.Unlock()
	} else if ctx.Err() == nil {
		s.opts.Log.Warn("pingback not delivered",
			slog.Int64("task", t.number), slog.Any("err", err))
	}
}

// ping delivers one pingback. Its error never holds the URL, which may carry a
// secret of the caller.
func (s *Service) ping(ctx context.Context, o *outcome, p pingback) error {
	if o.task.failed {
		o.code = codeUnsolvable
	} else {
		o.token = s.token(&o.task)
	}
	r, err := s.pingRequest(ctx, o, p)
	if err != nil {
		return errors.New("making the request: the address is not usable")
	}
	resp, err := s.pings.Do(r)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return fmt.Errorf("sending it: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered status %d", resp.StatusCode)
	}
	return nil
}

func (s *Service) pingRequest(ctx context.Context, o *outcome, p pingback) (*http.Request, error) {
	values := url.Values{
		"id":   {strconv.FormatInt(o.task.number, 10)},
		"code": {o.code + o.token}, // one of them is empty
	}
	method, target, kind := http.MethodPost, p.url, "application/x-www-form-urlencoded"
	body := []byte(values.Encode())
	switch p.form {
	case pingForm:
	case pingJSON:
		v := s.result(o)
		v.TaskID = o.task.number
		kind, body = "application/json", jsonAnswer(v).body
	case pingQuery:
		method, kind, body = http.MethodGet, "", nil
		// What the caller put into its query stays as it is.
		joint := "?"
		if strings.Contains(target, "?") {
			joint = "&"
		}
		target += joint + values.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err == nil && kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return r, err
}
