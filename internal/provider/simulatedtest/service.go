// Package simulatedtest is the solving service of package simulated with faults, callbacks and
// books, for tests. It keeps every sale.
//
// With Setup.LedgerHTTP the service has two more paths, for tests in another process: GET /ledger
// returns the Ledger, and PUT /faults replaces the faults.
package simulatedtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/provider/wire"
)

// Setup has the fields of simulated.Options and of the additions. Tests pass Setup as JSON to a Service in another
// process; the field Fault.When cannot be passed.
type Setup struct {
	Key, UserAgent            string
	Median                    time.Duration
	Sigma, Balance, FailShare float64
	Threads                   int
	Seed                      uint64

	LedgerHTTP    bool    // serve /ledger, without keys, proxies and token texts, and /faults
	CallbackForms bool    // callbacks are forms, as those of 2captcha, instead of GETs
	CallbackShare float64 // share of the requested callbacks that are sent; 0 = all
	Faults        []Fault // the faults in force at the start; SetFaults replaces them
}

// usualMedian is the median of the lead times, unless the Setup has another.
const usualMedian = 18 * time.Second

// Service is a simulated service. All its methods are safe for concurrent use.
type Service struct {
	core *simulated.Service
	opts Setup

	ending     context.Context // context that Close cancels
	end        context.CancelFunc
	mu         sync.Mutex // guards everything below, and prevents that a callback starts after Close
	running    sync.WaitGroup
	calls      map[wire.Action]int
	calledBack map[int64]int // delivered callbacks by task
	faults     []*armedFault // faults in force
}

// New returns a service. It starts no goroutine.
func New(o Setup) *Service {
	o.Seed, o.Balance = cmp.Or(o.Seed, rand.Uint64()), cmp.Or(o.Balance, 600)
	if o.Median == 0 && o.Sigma == 0 {
		o.Median, o.Sigma = usualMedian, 0.45
	}
	s := &Service{opts: o, calls: map[wire.Action]int{}, calledBack: map[int64]int{}}
	s.core = simulated.New(simulated.Options{
		Key: o.Key, Median: o.Median, Sigma: o.Sigma, Balance: o.Balance, Threads: o.Threads,
		FailShare: o.FailShare, Seed: o.Seed, UserAgent: o.UserAgent, Keep: 10_000 * time.Hour,
	})
	s.ending, s.end = context.WithCancel(context.Background())
	s.SetFaults(o.Faults...)
	return s
}

// Close cancels the undelivered callbacks and the calls that a fault delays. It waits for the
// service's goroutines.
func (s *Service) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.running.Wait()
}

// ServeHTTP handles one call.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.opts.LedgerHTTP && r.URL.Path == "/ledger" {
		_ = json.NewEncoder(w).Encode(s.ledger()) // an error means only that the client has disconnected
		return
	}
	if s.opts.LedgerHTTP && r.URL.Path == "/faults" {
		s.serveFaults(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	c := s.parse(r, body)
	run := func() wire.Reply {
		reply := s.core.Answer(r)
		if c.Action == Submit {
			c.sold, _ = strconv.ParseInt(string(soldTask.Find(reply.Body)), 10, 64)
			s.callBack(c)
		}
		return reply
	}
	if f := s.fault(c); f != nil {
		s.failCall(w, r, c, f, run)
		return
	}
	reply := run()
	w.Header().Set("Content-Type", reply.Type)
	_, _ = w.Write(reply.Body)
}

// soldTask finds the id in the answer to an accepted submission.
var soldTask = regexp.MustCompile(`\d{10}`)

// query is a call that was parsed but not executed yet.
type query struct {
	Attempt
	callbackURL string                       // URL for the result of a submit in the protocol in_php; "" = none
	refuse      func(code string) wire.Reply // returns the answer with an error code
	sold        int64                        // number of the task that this call sold; 0 = none
}

// parse parses a call of a protocol and counts it.
func (s *Service) parse(r *http.Request, body []byte) *query {
	sent := wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}
	c, inPHP := wire.Read(sent), wire.IsInPHPPath(r.URL.Path)
	q := &query{Attempt: Attempt{Action: wire.Other}, refuse: func(code string) wire.Reply { return c.Failed(code, code) }}
	if c.Action == Submit || inPHP && c.Bad == "" || wire.IsCreateTaskPath(r.URL.Path) {
		q.Action, q.Task = c.Action, strings.Join(c.IDs, ",")
	}
	if q.Action == Submit {
		q.Identity = c.Order.Identity
	}
	if inPHP {
		q.callbackURL = c.Order.CallbackURL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[q.Action]++
	return q
}

// IdentityOf returns the hash of the identity for which a token was solved. It returns false if no Service made
// the token.
func IdentityOf(token string) (hash string, is bool) {
	found := append(simulatedToken.FindStringSubmatch(token), "", "") // "" = none
	return found[1], found[1] != ""
}

var simulatedToken = regexp.MustCompile(`SIMULATED\.[^.]*\.[^.]*\.([0-9a-f]{32})\.`)
