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

// defaultBalance is the default of Options.Balance.
const defaultBalance = 600

// Service is a simulated solving service with one account. All methods are safe for concurrent use.
type Service struct {
	opts   *Options
	seed   uint64
	books  *books
	faults atomic.Pointer[[]*armedFault] // faults in force
	client *http.Client                  // HTTP client that sends the pingbacks

	ending  context.Context // context that Close cancels
	end     context.CancelFunc
	mu      sync.Mutex // prevents that a pingback starts during or after Close
	running sync.WaitGroup
}

// New returns a service. It starts no goroutine.
func New(opts Options) *Service {
	opts = opts.withDefaults()
	seed := cmp.Or(opts.Seed, rand.Uint64()) //nolint:gosec // not a secret
	s := &Service{opts: &opts, seed: seed, books: newBooks(&opts, seed), client: pingbackClient()}
	s.ending, s.end = context.WithCancel(context.Background())
	s.SetFaults(opts.Faults...)
	return s
}

// Close cancels the undelivered pingbacks and the calls that a fault delays. It waits for the
// service's goroutines. Calls after Close are still answered, but cause no pingbacks.
func (s *Service) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.running.Wait()
}

// ServeHTTP handles one call of either protocol, or a request for /ledger or /faults.
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
	s.books.countCall(q.Action)
	if f := s.fault(q.Call); f != nil {
		s.failCall(w, r, q, f)
		return
	}
	q.run(time.Now()).write(w)
}

// query is a call that was parsed but not executed yet.
type query struct {
	Call
	run    func(at time.Time) answer // executes the call and returns the true answer
	refuse func(code string) answer  // returns the answer with an error code
	accept func(number int64) answer // returns the answer with a task number; only for submissions
	sold   int64                     // number of the task that this call sold; 0 = none
}

// setSubmission sets the functions of q for a submission. The argument fail returns the answer for
// an error code from books.
func (s *Service) setSubmission(q *query, o order, fail func(code string) answer) {
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

// keyError returns the error code for an invalid key, and "" for a valid key.
func (s *Service) keyError(key string) string {
	switch {
	case key == "":
		return wire.CodeNoKey
	case s.opts.Key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(s.opts.Key)) != 1:
		return wire.CodeUnknownKey
	}
	return ""
}

// parse parses a call of either protocol.
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
