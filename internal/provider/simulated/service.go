package simulated

import (
	"bytes"
	"cmp"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
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
	reply := s.Answer(r)
	header, body := http.Header{"Content-Type": {reply.Type}}, io.NopCloser(bytes.NewReader(reply.Body))
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body, Request: r}, nil
}

// Answer executes one call of a protocol, and returns the response.
func (s *Service) Answer(r *http.Request) wire.Reply {
	body, err := io.ReadAll(r.Body)
	c := wire.Read(wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	})
	if err != nil {
		c.Bad = wire.CodeBadParams
	}
	return s.execute(&c, time.Now())
}

// execute executes a call and returns the response.
func (s *Service) execute(c *wire.Call, at time.Time) wire.Reply {
	code := cmp.Or(s.keyError(c.Key), c.Bad, c.Order.Bad)
	var t Task
	switch {
	case code != "":
	case c.Action == wire.Submit:
		if t, code = s.sell(c.Order.Identity, at); code == "" {
			return c.Accepted(strconv.FormatInt(t.Number, 10))
		}
	case c.Action == wire.Poll && !c.Many:
		if t, code = s.poll(c.IDs[0], at); code == "" {
			return c.Solved(s.Solution(t))
		}
	case c.Action == wire.Report:
		if code = s.report(c.IDs[0], c.Good, at); code == "" {
			return c.Reported()
		}
	case c.Action == wire.Balance:
		return c.Balance(s.opts.Balance)
	case c.Action == wire.Threads:
		return wire.JSON(s.threads(at))
	case c.Word == "":
		code = wire.CodeEmptyAction
	default:
		code = wire.CodeBadParams
	}
	return c.Failed(code, "the simulated service refuses: "+code)
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
