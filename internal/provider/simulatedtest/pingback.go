package simulatedtest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/provider/wire"
)

// pingback contains the URL and the form in which the service sends the result of a task: in the
// query, like captchaai; in a form, like 2captcha; or as JSON, as in the tasks protocol.
type pingback struct{ url, form string }

// pingClient keeps no idle connections, follows no redirects and ignores the proxies in the
// environment.
var pingClient = &http.Client{
	Timeout:       5 * time.Second,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ping starts a goroutine that delivers the pingback of a sold task at the task's due time.
func (s *Service) ping(q *query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lot := rand.New(rand.NewPCG(s.opts.Seed, uint64(q.sold))).Float64()
	if q.sold == 0 || q.pingback.url == "" || s.ending.Err() != nil || s.opts.PingShare > 0 && lot >= s.opts.PingShare {
		return
	}
	tasks := s.core.Tasks()
	t := tasks[slices.IndexFunc(tasks, func(t simulated.Task) bool { return t.Number == q.sold })]
	s.running.Go(func() {
		select {
		case <-time.After(time.Until(t.Due)):
		case <-s.ending.Done():
			return
		}
		r, err := s.pingRequest(s.ending, t, q.pingback)
		if err != nil {
			return
		}
		resp, err := pingClient.Do(r)
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pinged[t.Number]++
		}
	})
}

func (s *Service) pingRequest(ctx context.Context, t simulated.Task, p pingback) (*http.Request, error) {
	code := wire.CodeUnsolvable
	if !t.Failed {
		code = s.core.Token(t)
	}
	values := url.Values{"id": {strconv.FormatInt(t.Number, 10)}, "code": {code}}
	method, target, kind := http.MethodPost, p.url, "application/x-www-form-urlencoded"
	body := []byte(values.Encode())
	switch p.form {
	case "json":
		v := s.core.Result(t)
		v.TaskID = t.Number
		kind, body = "application/json", wire.JSON(v).Body
	case "query":
		method, body = http.MethodGet, nil
		// The pingback keeps the query that the caller's URL has.
		joint := "?"
		if strings.Contains(target, "?") {
			joint = "&"
		}
		target += joint + values.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", kind)
	}
	return r, err
}
