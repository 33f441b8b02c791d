package simulated

import (
	"bytes"
	"cmp"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"poold/internal/provider/wire"
)

const price = "0.00299"

// Service is a simulated solving service with one account. All methods are safe for concurrent use.
type Service struct {
	opts *Options

	mu    sync.Mutex // guards everything below
	lots  *rand.Rand
	last  int64   // number of the newest task
	tasks []*Task // tasks with the numbers up to last
}

// New returns a service. It starts no goroutine.
func New(opts Options) *Service {
	seed := cmp.Or(opts.Seed, rand.Uint64()) //nolint:gosec // not a secret
	lots := randomOf(seed)
	last := 1_000_000_000 + lots.Int64N(8_000_000_000) // a random number of ten digits, like the ids of real services
	return &Service{opts: &opts, lots: lots, last: last}
}

// RoundTrip answers a call of a client in the same process. It implements http.RoundTripper.
func (s *Service) RoundTrip(r *http.Request) (*http.Response, error) {
	status, reply := s.Answer(r)
	header, body := http.Header{"Content-Type": {reply.Type}}, io.NopCloser(bytes.NewReader(reply.Body))
	return &http.Response{StatusCode: status, Header: header, Body: body, Request: r}, nil
}

// Answer executes one call of a protocol, and returns the status and the content of the response.
func (s *Service) Answer(r *http.Request) (status int, reply wire.Reply) {
	inPHP := wire.IsInPHPPath(r.URL.Path)
	switch {
	case !inPHP && !wire.IsCreateTaskPath(r.URL.Path):
		return http.StatusNotFound, reply
	case r.Method != http.MethodPost && (!inPHP || r.Method != http.MethodGet):
		return http.StatusMethodNotAllowed, reply
	}
	body, err := io.ReadAll(r.Body)
	c := wire.Read(wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	})
	if err != nil {
		c.Bad = wire.CodeBadParams
	}
	return http.StatusOK, s.execute(&c, time.Now())
}

// keyError returns the error code for an invalid key, and "" for a valid key.
func (s *Service) keyError(key string) string {
	switch {
	case key == "":
		return wire.CodeNoKey
	case s.opts.Key != "" && key != s.opts.Key:
		return wire.CodeUnknownKey
	}
	return ""
}
