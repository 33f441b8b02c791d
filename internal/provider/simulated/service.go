package simulated

import (
	"container/heap"
	crand "crypto/rand"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
)

// The protocol's words that more than one file needs.
const (
	codeNotReady    = "CAPCHA_NOT_READY" // the protocol's own spelling
	codeUnsolvable  = "ERROR_CAPTCHA_UNSOLVABLE"
	codeNoKey       = "ERROR_WRONG_USER_KEY"
	codeUnknownKey  = "ERROR_KEY_DOES_NOT_EXIST"
	codeBadParams   = "ERROR_BAD_PARAMETERS"
	codeGooglekey   = "ERROR_GOOGLEKEY"
	codePageurl     = "ERROR_PAGEURL"
	codeBadProxy    = "ERROR_BAD_PROXY"
	codeNoMethod    = "ERROR_NO_SUCH_METHOD"
	codeIDFormat    = "ERROR_WRONG_ID_FORMAT"
	codeUnknownTask = "ERROR_WRONG_CAPTCHA_ID"
	codeZeroBalance = "ERROR_ZERO_BALANCE"
	codeNoSlot      = "ERROR_NO_SLOT_AVAILABLE"
)

// balance is what every account holds; nothing is ever subtracted.
const balance = 600

// Service is one solving service with one account. All methods are safe for
// concurrent use.
type Service struct {
	opts   Options
	seed   uint64
	faults atomic.Pointer[[]*armedFault]
	pings  *http.Client

	mu      sync.Mutex // guards everything below
	lots    *rand.Rand
	last    int64           // number of the newest task
	tasks   map[int64]*task // by number; what is not here is unknown to callers
	working taskHeap        // in flight, the earliest due first
	settled []*task         // due and not yet forgotten, the earliest due first
	sold    []*task         // every sale; only with Options.Ledger
	totals  Totals
	limits  limits
	life    *life
}

// task is one accepted order. Its facts are fixed at the submit; the counters
// are guarded by Service.mu.
type task struct {
	number   int64
	identity captcha.Identity
	id       captcha.ID
	at, due  time.Time
	failed   bool
	lot      uint64 // seed of everything that is drawn for this task

	polls, collected int
	pings, pinged    int
	firstCollected   time.Time
	report           string // good | bad; "" = none yet
}

// New makes a service. It starts nothing.
func New(opts Options) *Service {
	s := &Service{
		opts:  opts.withDefaults(),
		seed:  opts.Seed,
		pings: pingbackClient(),
		tasks: make(map[int64]*task),
		life:  newLife(),
	}
	for s.seed == 0 {
		var raw [8]byte
		_, _ = crand.Read(raw[:]) // never fails
		s.seed = binary.LittleEndian.Uint64(raw[:])
	}
	s.lots = dice(s.seed, orderStream)
	// Ten digits, as real ids have.
	s.last = 1_000_000_000 + s.lots.Int64N(8_000_000_000)
	s.totals.ByAction = make(map[Action]int)
	s.SetFaults(opts.Faults...)
	return s
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
	q := s.parse(r) //nolint:contextcheck // a pingback outlives the call that orders it
	q.N = s.count(q.Call)
	if f := s.pickFault(q.Call); f != nil {
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

// parse finds the protocol.
func (s *Service) parse(r *http.Request) *query {
	post := r.Method == http.MethodPost
	status := http.StatusNotFound
	switch r.URL.Path {
	case "/in.php", "/res.php":
		if post || r.Method == http.MethodGet {
			return s.parseLegacy(r)
		}
		status = http.StatusMethodNotAllowed
	case "/createTask", "/getTaskResult", "/getBalance",
		"/reportCorrect", "/reportIncorrect", "/reportCorrectRecaptcha", "/reportIncorrectRecaptcha", "/reportIncorrectHcaptcha":
		if post {
			return s.parseTasks(r)
		}
		status = http.StatusMethodNotAllowed
	}
	return &query{
		Call:   Call{Action: Other},
		run:    func(time.Time) answer { return statusAnswer(status) },
		refuse: legacyForm{}.fail,
	}
}

// order is a submit as either protocol gives it.
type order struct {
	key      string
	identity captcha.Identity
	bad      string // what is wrong with the parameters; "" = nothing
	legacy   bool
	ping     pingback
}

// submit sells one task or says why not. With Options.PingEarly it returns
// when the pingback was delivered.
func (s *Service) submit(o order, at time.Time) (number int64, code string) {
	id := o.identity.ID()
	s.mu.Lock()
	number, code, deliver := s.sellLocked(o, id, at)
	s.mu.Unlock()
	if deliver != nil {
		deliver()
	}
	return number, code
}

// sellLocked is submit up to the pingback that comes before its answer; nil =
// there is none such.
func (s *Service) sellLocked(o order, id captcha.ID, at time.Time) (number int64, code string, deliver func()) {
	s.advanceLocked(at)
	if code := s.judgeLocked(o, at); code != "" {
		s.totals.Refused++
		return 0, code, nil
	}
	s.last++
	t := &task{number: s.last, identity: o.identity, id: id, at: at, lot: s.lots.Uint64()}
	t.due, t.failed = s.draw(t)
	pinged := o.ping.url != "" && s.pinged(t)
	if pinged && s.opts.PingEarly {
		t.due = at
	}
	s.tasks[t.number] = t
	heap.Push(&s.working, t)
	if s.opts.Ledger {
		s.sold = append(s.sold, t)
	}
	s.limits.submits++
	s.totals.Submitted++
	s.totals.InFlight++
	s.totals.PeakInFlight = max(s.totals.PeakInFlight, s.totals.InFlight)
	if pinged {
		deliver = s.schedulePingLocked(t, o.ping, at)
	}
	return t.number, "", deliver
}

// judgeLocked gives the code that an order is refused with, "" if it is
// accepted. The account comes before the parameters, these before capacity.
func (s *Service) judgeLocked(o order, at time.Time) string {
	if o.legacy && s.tooManyTurnsLocked(at) {
		return "MAX_USER_TURN"
	}
	if code := s.admitLocked(o.key, at); code != "" {
		return code
	}
	if o.bad != "" {
		return o.bad
	}
	if s.opts.Threads > 0 && s.totals.InFlight >= s.opts.Threads {
		if s.opts.Flavour == CaptchaAI {
			return codeZeroBalance // which means threads there, not money
		}
		return codeNoSlot
	}
	return ""
}

// draw decides a task's fate.
func (s *Service) draw(t *task) (due time.Time, failed bool) {
	lot := dice(t.lot, lotStream)
	lead := time.Duration(float64(s.opts.Median) * math.Exp(s.opts.Sigma*lot.NormFloat64()))
	lead = max(lead, s.opts.Min)
	if s.opts.Max > 0 {
		lead = min(lead, s.opts.Max)
	}
	return t.at.Add(lead), lot.Float64() < s.opts.FailShare
}

// outcome is what one poll of one task found.
type outcome struct {
	code  string // not "": instead of a token
	token string
	task  task // a copy; zero for an unknown one
}

// poll looks at tasks by number, in the order given; number 0 is never known.
// A refusal of the whole call comes as code.
func (s *Service) poll(key string, numbers []int64, at time.Time) (found []outcome, code string) {
	s.mu.Lock()
	s.advanceLocked(at)
	if code := s.admitLocked(key, at); code != "" {
		s.mu.Unlock()
		return nil, code
	}
	found = make([]outcome, len(numbers))
	for i, number := range numbers {
		found[i] = s.lookLocked(number, at)
	}
	s.mu.Unlock()
	// Tokens are long: they are made outside the lock.
	for i := range found {
		if found[i].code == "" {
			found[i].token = s.token(&found[i].task)
		}
	}
	return found, ""
}

func (s *Service) lookLocked(number int64, at time.Time) outcome {
	t, known := s.tasks[number]
	if !known {
		return outcome{code: codeUnknownTask}
	}
	t.polls++
	switch {
	case at.Before(t.due):
		return outcome{code: codeNotReady, task: *t}
	case t.failed:
		return outcome{code: codeUnsolvable, task: *t}
	}
	t.collected++
	if t.collected == 1 {
		t.firstCollected = at
		s.totals.Collected++
	} else {
		s.totals.Repeated++
	}
	return outcome{task: *t}
}

// advanceLocked brings the books to the given time: tasks that are due free
// their thread, tasks that are old are forgotten. Each is touched once in its
// life for either, whatever the number of calls.
func (s *Service) advanceLocked(at time.Time) {
	for len(s.working) > 0 && !at.Before(s.working[0].due) {
		t, _ := heap.Pop(&s.working).(*task)
		s.totals.InFlight--
		if t.failed {
			s.totals.Failed++
		} else {
			s.totals.Solved++
		}
		s.settled = append(s.settled, t)
	}
	for len(s.settled) > 0 && at.Sub(s.settled[0].due) >= s.opts.Keep {
		delete(s.tasks, s.settled[0].number)
		s.settled[0] = nil
		s.settled = s.settled[1:]
	}
}

// taskHeap is a heap by due time.
type taskHeap []*task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h taskHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	t, _ := x.(*task)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
