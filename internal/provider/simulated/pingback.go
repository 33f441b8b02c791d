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

// pingTimeout is the timeout for the delivery of one pingback.
const pingTimeout = 5 * time.Second

// pingback contains the URL and the form in which the service sends the result of a task.
type pingback struct {
	url  string // "" = no pingback
	form pingForms
}

// pingForms says in which form a pingback is sent.
type pingForms int

const (
	pingQuery pingForms = iota // GET with id and code in the query, like captchaai
	pingForm                   // POST with id and code in a form, like 2captcha
	pingJSON                   // POST with the response to getTaskResult, as in the tasks protocol
)

// pingbackClient returns an HTTP client that keeps no idle connections, follows no redirects and
// ignores the proxies in the environment.
func pingbackClient() *http.Client {
	return &http.Client{
		Timeout:       pingTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ping starts a goroutine that delivers the pingback of a task at the task's due time.
// The argument at is the time of the sale.
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

// deliver sends the pingbacks of a task and counts the delivered pingbacks.
func (s *Service) deliver(t *task) {
	for range 1 + s.opts.PingRepeat {
		err := s.call(s.ending, s.books.pingOutcome(t))
		switch {
		case s.ending.Err() != nil:
			return
		case err == nil:
			s.books.countPinged(t)
		default:
			s.opts.Log.Warn("pingback not delivered", slog.Int64("task", t.number), slog.Any("err", err))
		}
	}
}

// call delivers one pingback. The error never contains the URL, because the URL may
// contain a secret of the caller.
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
		"code": {o.code + o.token}, // either code or token is empty
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
		// The pingback keeps the query that the caller's URL has.
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
