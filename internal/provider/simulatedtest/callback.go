package simulatedtest

import (
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

// callbackClient keeps no idle connections, and ignores the proxies in the environment.
var callbackClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// callBack starts a goroutine that delivers the callback of a sold task at the task's due time.
func (s *Service) callBack(q *query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lot := rand.New(rand.NewPCG(s.opts.Seed, uint64(q.sold))).Float64()
	left := s.opts.CallbackShare > 0 && lot >= s.opts.CallbackShare
	if q.sold == 0 || q.callbackURL == "" || s.ending.Err() != nil || left {
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
		r, err := s.callbackRequest(s.ending, t, q.callbackURL)
		if err != nil {
			return
		}
		resp, err := callbackClient.Do(r)
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calledBack[t.Number]++
		}
	})
}

// callbackRequest returns the callback of a task, in a query or in a form. The query keeps what the caller's URL has.
func (s *Service) callbackRequest(ctx context.Context, t simulated.Task, target string) (*http.Request, error) {
	code := wire.CodeUnsolvable
	if !t.Failed {
		code = s.core.Token(t)
	}
	values := url.Values{"id": {strconv.FormatInt(t.Number, 10)}, "code": {code}}.Encode()
	if !s.opts.CallbackForms {
		joint := "?"
		if strings.Contains(target, "?") {
			joint = "&"
		}
		return http.NewRequestWithContext(ctx, http.MethodGet, target+joint+values, nil)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(values))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r, err
}
