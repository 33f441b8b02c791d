package simulated

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// Action is the purpose of a call, in either protocol.
type Action = wire.Action

// The actions.
const (
	Submit  = wire.Submit
	Poll    = wire.Poll
	Balance = wire.Balance
	Report  = wire.Report
	Threads = wire.Threads
	Other   = wire.Other
)

// Call is one call as faults see it.
type Call struct {
	Action   Action
	Task     string           // the id that a Poll or Report names; "" otherwise
	Identity captcha.Identity // of a Submit; zero otherwise
	N        int              // 1 for the first call of this Action
}

// Kind is a way in which a call goes wrong.
type Kind string

// The kinds of faults.
const (
	Delayed   Kind = ""           // the true answer; with Fault.Delay, later
	Drop      Kind = "drop"       // the connection closes without a byte
	Cut       Kind = "cut"        // the connection closes within the true answer
	Hang      Kind = "hang"       // no answer until the caller or the service goes
	HTML      Kind = "html"       // a page where an answer should be
	Status    Kind = "status"     // an HTTP status
	Huge      Kind = "huge"       // an answer of 16 MiB
	Slow      Kind = "slow"       // the true answer, a byte each Fault.Delay (0 = 1 s)
	Redirect  Kind = "redirect"   // 307 to /redirected, which counts as Other
	Types     Kind = "types"      // JSON whose fields have the wrong types
	OtherTask Kind = "other-task" // a submit is answered with the id of the task before it
	Code      Kind = "code"       // Fault.Code instead of an answer
)

// Fault says which calls go wrong and how. The first of several that matches a call acts.
type Fault struct {
	On    Action          // "" = every action
	When  func(Call) bool `json:"-"` // nil = always; called without a lock, by many at once
	Share float64         // of the calls that match so far; 0 = all of them
	Times int             // acts so often and then never again; 0 = no end

	Kind     Kind
	Accepted bool          // the call takes effect first: a submit is bought, a poll collects
	Delay    time.Duration // before the answer, or between the bytes of Slow
	Code     string        // for Code; in the protocol's own words, CAPCHA_NOT_READY also for tasks
	Status   int           // for Status; 0 = 500
}

const (
	hugeBody = 16 << 20
	htmlBody = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head>" +
		"<body><h1>502 Bad Gateway</h1></body></html>\n"
	typesBody = `{"status":{"code":"1"},"request":[{"id":null}],"errorId":"none","taskId":[true],"solution":7}`
)

// armedFault is a fault in force.
type armedFault struct {
	Fault
	mu   sync.Mutex
	dice *rand.Rand
	left int
}

// SetFaults replaces the faults in force for all calls that begin afterwards;
// without arguments the service is well again. Equal seeds and equal orders of
// matching calls hit the same calls.
func (s *Service) SetFaults(faults ...Fault) {
	armed := make([]*armedFault, len(faults))
	for i, one := range faults {
		armed[i] = &armedFault{Fault: one, dice: dice(s.seed, faultStream+uint64(i)), left: one.Times}
	}
	s.faults.Store(&armed)
}

// fault finds the fault that acts on a call, nil for none.
func (s *Service) fault(c Call) *armedFault {
	for _, one := range *s.faults.Load() {
		if one.hits(c) {
			return one
		}
	}
	return nil
}

func (f *armedFault) hits(c Call) bool {
	if (f.On != "" && f.On != c.Action) || (f.When != nil && !f.When(c)) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Times > 0 && f.left == 0 {
		return false
	}
	if f.Share > 0 && f.dice.Float64() >= f.Share {
		return false
	}
	f.left--
	return true
}

// play answers a call with a fault.
func (s *Service) play(w http.ResponseWriter, r *http.Request, q *query, fault *armedFault) {
	var a answer
	truthful := fault.Kind == Delayed || fault.Kind == Cut || fault.Kind == Slow || fault.Kind == OtherTask
	if fault.Accepted {
		a = q.run(time.Now())
	}
	waited := fault.Kind == Slow || fault.Delay == 0 || s.life.sleep(r, fault.Delay)
	switch {
	case fault.Accepted:
	case truthful && waited:
		a = q.run(time.Now())
	case q.Action == Submit:
		s.books.refused()
	}
	if !waited {
		panic(http.ErrAbortHandler)
	}
	switch fault.Kind {
	case Delayed:
		a.write(w)
	case Slow:
		s.dribble(w, r, a, fault.Delay)
	case Cut:
		a.head(w)
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case Hang:
		s.life.sleep(r, 0)
		panic(http.ErrAbortHandler)
	case Huge:
		flood(w)
	case OtherTask:
		otherTask(q, a).write(w)
	case Code:
		q.refuse(fault.Code).write(w)
	case HTML:
		answer{kind: htmlText, body: []byte(htmlBody)}.write(w)
	case Types:
		answer{kind: jsonText, body: []byte(typesBody)}.write(w)
	case Status:
		status := fault.Status
		if status == 0 {
			status = http.StatusInternalServerError
		}
		statusAnswer(status).write(w)
	case Redirect:
		w.Header().Set("Location", "/redirected")
		statusAnswer(http.StatusTemporaryRedirect).write(w)
	default: // Drop
		// The one panic that net/http documents for this: it closes the
		// connection and logs nothing.
		panic(http.ErrAbortHandler)
	}
}

// dribble sends a body byte by byte.
func (s *Service) dribble(w http.ResponseWriter, r *http.Request, a answer, pause time.Duration) {
	if pause == 0 {
		pause = time.Second
	}
	control := http.NewResponseController(w)
	// The server's own limit on writing would end this fault too early.
	_ = control.SetWriteDeadline(time.Time{})
	a.head(w)
	for i := range a.body {
		if _, err := w.Write(a.body[i : i+1]); err != nil {
			return
		}
		_ = control.Flush()
		if !s.life.sleep(r, pause) {
			panic(http.ErrAbortHandler)
		}
	}
}

// flood sends an answer that begins well and is far too long.
func flood(w http.ResponseWriter) {
	w.Header().Set("Content-Type", jsonText)
	chunk := bytes.Repeat([]byte("A"), 64<<10)
	if _, err := fmt.Fprint(w, `{"status":1,"request":"`); err != nil {
		return
	}
	for range hugeBody / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, `"}`)
}

// otherTask says the number before a submit's own; a refusal stays as it is.
func otherTask(q *query, a answer) answer {
	if q.sold == 0 {
		return a
	}
	return q.accept(q.sold - 1)
}
