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
	form pingForms
}

// pingForms is the form of a pingback.
type pingForms int

const (
	pingQuery pingForms = iota // GET, id and code in the query: captchaai
	pingForm                   // POST, id and code as a form: 2captcha
	pingJSON                   // POST, the answer of getTaskResult: the tasks protocol
)

// pingbackClient keeps no connection, follows no redirect and ignores the proxies of the
// environment.
func pingbackClient() *http.Client {
	return &http.Client{
		Timeout:       pingTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ping delivers the pingback of a task that was sold at the given time, when the task is due.
func (s *Service) ping(t *task, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ping.url == "" || s.ending.Err() != nil {
		return
	}
	s.running.Go(func() {
		select {
		case <-time.After(t.due.Sub(at)):
			s.deliver(t)
		case <-s.ending.Done():
		}
	})
}

// deliver sends a task's pingbacks and counts those that arrive.
func (s *Service) deliver(t *task) {
	for range 1 + s.opts.PingRepeat {
		err := s.call(s.ending, s.books.pingOutcome(t))
		switch {
		case s.ending.Err() != nil:
			return
		case err == nil:
			s.books.pinged(t)
		default:
			s.opts.Log.Warn("pingback not delivered", slog.Int64("task", t.number), slog.Any("err", err))
		}
	}
}

// call delivers one pingback. Its error never holds the URL, which may carry a
// secret of the caller.
func (s *Service) call(ctx context.Context, o outcome) error {
	r, err := pingRequest(ctx, o, s.opts)
	if err != nil {
		return errors.New("making the request: invalid address")
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

func pingRequest(ctx context.Context, o outcome, opts *Options) (*http.Request, error) {
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
