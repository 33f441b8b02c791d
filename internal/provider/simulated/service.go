package simulated

import (
	crand "crypto/rand"
	"encoding/binary"
	"net/http"
	"time"
)

// balance is what every account holds; nothing is ever subtracted.
const balance = 600

// Service is one solving service with one account. All methods are safe for
// concurrent use.
type Service struct {
	opts   *Options
	books  *books
	faults *faults
	life   *life
	legacy legacy
	tasks  tasks
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
	books, life := newBooks(&opts, seed), newLife()
	account := account{opts: &opts, books: books, pings: newPinger(&opts, books, life)}
	s := &Service{
		opts: &opts, books: books, faults: &faults{seed: seed, books: books, life: life}, life: life,
		legacy: legacy{account}, tasks: tasks{account},
	}
	s.SetFaults(opts.Faults...)
	return s
}

// Close drops the pingbacks that are not delivered yet, lets go of the calls
// that faults hold, and waits for its goroutines. Books and faults stay; the
// service can be used again, as if it had been out of order for a while.
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
	if f := s.faults.pick(q.Call); f != nil {
		s.faults.play(w, r, q, f)
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

// parse finds the protocol.
func (s *Service) parse(r *http.Request) *query {
	post := r.Method == http.MethodPost
	status := http.StatusNotFound
	switch r.URL.Path {
	case "/in.php", "/res.php":
		if post || r.Method == http.MethodGet {
			return s.legacy.parse(r)
		}
		status = http.StatusMethodNotAllowed
	case "/createTask", "/getTaskResult", "/getBalance",
		"/reportCorrect", "/reportIncorrect", "/reportCorrectRecaptcha", "/reportIncorrectRecaptcha", "/reportIncorrectHcaptcha",
		"/reportIncorrectImageCaptcha":
		if post {
			return s.tasks.parse(r)
		}
		status = http.StatusMethodNotAllowed
	}
	return &query{
		Call:   Call{Action: Other},
		run:    func(time.Time) answer { return statusAnswer(status) },
		refuse: legacyForm{}.fail,
	}
}
