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
	"poold/internal/provider/wire"
	"strconv"
	"strings"
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

// pinger delivers pingbacks.
type pinger struct {
	opts   *Options
	books  *books
	life   *life
	client *http.Client
}

func newPinger(opts *Options, books *books, life *life) *pinger {
	return &pinger{opts: opts, books: books, life: life, client: pingbackClient()}
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

// send has the pingback of a task, sold then, delivered when it is due; with
// Options.PingEarly, before it returns.
func (p *pinger) send(t *task, at time.Time) {
	run := func(ctx context.Context) {
		for range 1 + p.opts.PingRepeat {
			if ctx.Err() != nil {
				break
			}
			p.deliver(ctx, t)
		}
	}
	switch {
	case t.ping.url == "":
	case p.opts.PingEarly:
		p.life.now(run)
	default:
		p.life.later(t.due.Sub(at)+p.opts.PingDelay, run)
	}
}

// deliver sends one pingback and keeps the books about it.
func (p *pinger) deliver(ctx context.Context, t *task) {
	err := p.call(ctx, p.books.pinging(t))
	if err == nil {
		p.books.pinged(t)
	} else if ctx.Err() == nil {
		p.opts.Log.Warn("pingback not delivered",
			slog.Int64("task", t.number), slog.Any("err", err))
	}
}

// call delivers one pingback. Its error never holds the URL, which may carry a
// secret of the caller.
func (p *pinger) call(ctx context.Context, o *outcome) error {
	r, err := p.request(ctx, o)
	if err != nil {
		return errors.New("making the request: the address is not usable")
	}
	resp, err := p.client.Do(r)
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

func (p *pinger) request(ctx context.Context, o *outcome) (*http.Request, error) {
	values := url.Values{
		"id":   {strconv.FormatInt(o.task.number, 10)},
		"code": {o.code + o.token}, // one of them is empty
	}
	method, target, kind := http.MethodPost, o.task.ping.url, "application/x-www-form-urlencoded"
	body := []byte(values.Encode())
	switch o.task.ping.form {
	case pingForm:
	case pingJSON:
		v := tasksResult(o, p.opts)
		v.TaskID = o.task.number
		kind, body = "application/json", wire.JSON(v).Body
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
