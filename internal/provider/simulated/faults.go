package simulated

import (
	"bytes"
	"cmp"
	"encoding/json"
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

// Call is the part of a call that Fault.When sees.
type Call struct {
	Action   Action
	Task     string           // the id that a Poll or Report names; "" otherwise
	Identity captcha.Identity // of a Submit; zero otherwise
}

// Kind is a way in which a call goes wrong.
type Kind string

// The kinds of faults.
const (
	Drop      Kind = "drop"       // the connection closes without a byte
	Hang      Kind = "hang"       // no answer until the caller disconnects or the service is closed
	HTML      Kind = "html"       // a page instead of an answer
	Status    Kind = "status"     // an HTTP status
	Huge      Kind = "huge"       // an answer of 16 MiB
	Slow      Kind = "slow"       // the true answer, one byte a second
	Redirect  Kind = "redirect"   // 307 to /redirected, which counts as Other
	Types     Kind = "types"      // JSON whose fields have the wrong types
	OtherTask Kind = "other-task" // the answer to a submit has the id of the task before it
	Code      Kind = "code"       // Fault.Code instead of an answer
)

// Fault selects calls, and how they fail. Of several faults, the first that matches a call acts.
type Fault struct {
	On    Action          // "" = every action
	When  func(Call) bool `json:"-"` // nil = always; called concurrently, without a lock
	Share float64         // of the calls that match so far; 0 = all of them
	Times int             // how often it acts; 0 = no limit

	Kind     Kind
	Accepted bool   // the call takes effect first, as for Slow and OtherTask: a submit is bought, a poll collects
	Code     string // for Code; in the protocol's own words, CAPCHA_NOT_READY also for tasks
	Status   int    // for Status; 0 = 500
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
	mu   sync.Mutex // guards what follows
	dice *rand.Rand
	acts int // so far
}

// SetFaults replaces the faults in force for all calls that begin afterwards. Without arguments
// no fault is in force. Equal seeds and equal orders of matching calls hit the same calls.
func (s *Service) SetFaults(faults ...Fault) {
	armed := make([]*armedFault, len(faults))
	for i, one := range faults {
		armed[i] = &armedFault{Fault: one, dice: dice(s.seed, faultStream+uint64(i))}
	}
	s.faults.Store(&armed)
}

// serveFaults replaces the faults in force by a JSON list of Fault. An invalid list changes
// nothing.
func (s *Service) serveFaults(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var faults []Fault
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&faults); err != nil {
		http.Error(w, "reading the faults: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.SetFaults(faults...)
	w.WriteHeader(http.StatusNoContent)
}

// fault returns the fault that acts on a call, nil if none does.
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
	if f.Times > 0 && f.acts == f.Times || f.Share > 0 && f.dice.Float64() >= f.Share {
		return false
	}
	f.acts++
	return true
}

// play answers a call with a fault.
func (s *Service) play(w http.ResponseWriter, r *http.Request, q *query, fault *armedFault) {
	var a answer
	if fault.Accepted || fault.Kind == Slow || fault.Kind == OtherTask {
		a = q.run(time.Now())
	} else if q.Action == Submit {
		s.books.refused()
	}
	switch fault.Kind {
	case Slow:
		s.dribble(w, r, a)
	case Hang:
		s.sleep(r, nil)
		panic(http.ErrAbortHandler)
	case Huge:
		flood(w)
	case OtherTask:
		if q.sold != 0 { // a refusal stays as it is
			a = q.accept(q.sold - 1)
		}
		a.write(w)
	case Code:
		q.refuse(fault.Code).write(w)
	case HTML:
		answer{kind: "text/html; charset=utf-8", body: []byte(htmlBody)}.write(w)
	case Types:
		answer{kind: wire.JSONText, body: []byte(typesBody)}.write(w)
	case Status:
		statusAnswer(cmp.Or(fault.Status, http.StatusInternalServerError)).write(w)
	case Redirect:
		w.Header().Set("Location", "/redirected")
		statusAnswer(http.StatusTemporaryRedirect).write(w)
	default: // Drop
		// net/http documents this panic: it closes the connection and logs nothing.
		panic(http.ErrAbortHandler)
	}
}

// sleep waits for a receive from after. It returns false if the caller disconnects or the
// service is closed first.
func (s *Service) sleep(r *http.Request, after <-chan time.Time) bool {
	select {
	case <-after:
		return true
	case <-r.Context().Done():
	case <-s.ending.Done():
	}
	return false
}

// dribble sends one byte of an answer a second.
func (s *Service) dribble(w http.ResponseWriter, r *http.Request, a answer) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // the server's own limit would end this fault too early
	a.head(w)
	for i := range a.body {
		if _, err := w.Write(a.body[i : i+1]); err != nil {
			return
		}
		_ = control.Flush()
		if !s.sleep(r, time.After(time.Second)) {
			panic(http.ErrAbortHandler)
		}
	}
}

// flood sends an answer that begins well and is far too long.
func flood(w http.ResponseWriter) {
	w.Header().Set("Content-Type", wire.JSONText)
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
