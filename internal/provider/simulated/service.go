package simulated

import (
	"cmp"
	"context"
	"crypto/subtle"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/provider/wire"
)

// balance is the balance of every account; sales do not reduce it.
const balance = 600

// Service is one solving service with one account. All methods are safe for
// concurrent use.
type Service struct {
	opts   *Options
	seed   uint64
	books  *books
	faults atomic.Pointer[[]*armedFault] // in force
	client *http.Client                  // of pingbacks

	ending  context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex // orders the start of pingbacks and Close
	running sync.WaitGroup
}

// New makes a service. It starts nothing.
func New(opts Options) *Service {
	opts = opts.withDefaults()
	seed := cmp.Or(opts.Seed, rand.Uint64()) //nolint:gosec // not a secret
	s := &Service{opts: &opts, seed: seed, books: newBooks(&opts, seed), client: pingbackClient()}
	s.ending, s.end = context.WithCancel(context.Background())
	s.SetFaults(opts.Faults...)
	return s
}

// Close drops the pingbacks that are not delivered yet, ends the calls that faults delay, and
// waits for its goroutines. Later calls are answered, but send no pingbacks.
func (s *Service) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.running.Wait()
}

// ServeHTTP answers one call of either protocol.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	switch {
	case r.URL.Path == "/ledger" && s.opts.LedgerHTTP:
		s.serveLedger(w, r)
		return
	case r.URL.Path == "/faults" && s.opts.LedgerHTTP:
		s.serveFaults(w, r)
		return
	}
	q := s.parse(r)
	s.books.count(q.Action)
	if f := s.fault(q.Call); f != nil {
		s.play(w, r, q, f)
		return
	}
	q.run(time.Now()).write(w)
}

// query is a call that was read and has had no effect yet.
type query struct {
	Call
	run    func(at time.Time) answer // carries the call out and returns the true answer
	refuse func(code string) answer  // the answer with a code
	accept func(number int64) answer // the answer with a task's number; submits only
	sold   int64                     // the number of the task that run sold; 0 = none
}

// submits makes q the submit of an order. fail returns the answer with a code of the books.
func (s *Service) submits(q *query, o order, fail func(code string) answer) {
	q.Action, q.Identity = Submit, o.identity
	q.run = func(at time.Time) answer {
		t, code := s.books.sell(o, at)
		if code != "" {
			return fail(code)
		}
		s.ping(t, at)
		q.sold = t.number
		return q.accept(t.number)
	}
}

// admit returns the code that refuses a key, "" for a valid one.
func (s *Service) admit(key string) string {
	switch {
	case key == "":
		return wire.CodeNoKey
	case s.opts.Key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(s.opts.Key)) != 1:
		return wire.CodeUnknownKey
	}
	return ""
}

// parse reads a call of either protocol.
func (s *Service) parse(r *http.Request) *query {
	status := http.StatusNotFound
	legacy := r.URL.Path == "/in.php" || r.URL.Path == "/res.php"
	switch {
	case legacy && (r.Method == http.MethodPost || r.Method == http.MethodGet):
		return s.parseLegacy(r)
	case !legacy && wire.IsTasksPath(r.URL.Path) && r.Method == http.MethodPost:
		return s.parseTasks(r)
	case legacy, wire.IsTasksPath(r.URL.Path):
		status = http.StatusMethodNotAllowed
	}
	return &query{
		Call:   Call{Action: Other},
		run:    func(time.Time) answer { return statusAnswer(status) },
		refuse: legacyForm{}.fail,
	}
}
