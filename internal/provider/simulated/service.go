package simulated

import (
	crand "crypto/rand"
	"encoding/binary"
	"net/http"
	"sync/atomic"
	"time"

	"poold/internal/provider/wire"
)

// balance is what every account holds; nothing is ever subtracted.
const balance = 600

// Service is one solving service with one account. All methods are safe for
// concurrent use.
type Service struct {
	opts   *Options
	seed   uint64
	books  *books
	faults atomic.Pointer[[]*armedFault] // in force
	life   *life
	client *http.Client // of pingbacks
}

// New makes a service. It starts nothing.
func New(opts Options) *Service {
	opts = opts.withDefaults()
	seed := opts.Seed
	for seed == 0 {
		var raw [8]byte
		_, _ = crand.Read(raw[:]) // never fails
		seed = binary.LittleEndian.Uint64(raw[:])
	}
	s := &Service{opts: &opts, seed: seed, books: newBooks(&opts, seed), life: newLife(), client: pingbackClient()}
	s.SetFaults(opts.Faults...)
	return s
}

// Close drops the pingbacks that are not delivered yet, ends the calls that faults hold, and
// waits for its goroutines. Books and faults stay; the service can be used again.
func (s *Service) Close() { s.life.end() }

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
	q := s.parse(r) //nolint:contextcheck // a pingback outlives the call that orders it
	q.N = s.books.count(q.Call)
	if f := s.fault(q.Call); f != nil {
		s.play(w, r, q, f)
		return
	}
	q.run(time.Now()).write(w)
}

// query is a call that was read and not yet acted upon.
type query struct {
	Call
	run    func(at time.Time) answer // does it, and says what an undisturbed service says
	refuse func(code string) answer  // how this protocol says an error
	accept func(number int64) answer // how it says a task's number; submits only
	sold   int64                     // the number that run sold; 0 = none
}

// submits turns q into the submit of an order; fail writes a code in the protocol's form.
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

// parse finds the protocol.
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
