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
	"time"

	"poold/internal/provider/wire"
)

// pingTimeout bounds the delivery of one pingback.
const pingTimeout = 5 * time.Second

// pingback is the address and the form in which a caller wants a task's result.
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

// pingbackClient keeps no connection and follows no redirect, and it does not
// go through a proxy that the environment names.
func pingbackClient() *http.Client {
	return &http.Client{
		Timeout:       pingTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ping delivers the pingback of a task that was sold at a time: when the task is due, or before
// ping returns with Options.PingEarly.
func (s *Service) ping(t *task, at time.Time) {
	if t.ping.url == "" {
		return
	}
	ctx, done := s.life.work()
	if s.opts.PingEarly {
		defer done()
		s.deliver(ctx, t)
		return
	}
	go func() {
		defer done()
		select {
		case <-time.After(t.due.Sub(at) + s.opts.PingDelay):
			s.deliver(ctx, t)
		case <-ctx.Done():
		}
	}()
}

// deliver sends a task's pingbacks and keeps the books about them.
func (s *Service) deliver(ctx context.Context, t *task) {
	for range 1 + s.opts.PingRepeat {
		if ctx.Err() != nil {
			return
		}
		err := s.call(ctx, s.books.pinging(t))
		if err == nil {
			s.books.pinged(t)
		} else if ctx.Err() == nil {
			s.opts.Log.Warn("pingback not delivered", slog.Int64("task", t.number), slog.Any("err", err))
		}
	}
}

// call delivers one pingback. Its error never holds the URL, which may carry a
// secret of the caller.
func (s *Service) call(ctx context.Context, o *outcome) error {
	r, err := pingRequest(ctx, o, s.opts)
	if err != nil {
		return errors.New("making the request: the address is not usable")
	}
	resp, err := s.client.Do(r)
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

func pingRequest(ctx context.Context, o *outcome, opts *Options) (*http.Request, error) {
	values := url.Values{
		"id":   {strconv.FormatInt(o.task.number, 10)},
		"code": {o.code + o.token}, // one of them is empty
	}
	method, target, kind := http.MethodPost, o.task.ping.url, "application/x-www-form-urlencoded"
	body := []byte(values.Encode())
	switch o.task.ping.form {
	case pingForm:
	case pingJSON:
		v := tasksResult(o, opts)
		v.TaskID = o.task.number
		kind, body = "application/json", wire.JSON(v).Body
	case pingQuery:
		method, kind, body = http.MethodGet, "", nil
		// The query of the caller's URL is kept unchanged.
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
