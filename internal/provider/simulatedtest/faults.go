package simulatedtest

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"net/http"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// Submit is the action of a submit.
const Submit = wire.Submit

// Poll is the action of a poll.
const Poll = wire.Poll

// Attempt describes a call for Fault.When.
type Attempt struct {
	Action   wire.Action
	Task     string           // the id in a Poll or Report; "" for other actions
	Identity captcha.Identity // the identity in a Submit; zero for other actions
}

// Symptom says in which way a call fails.
type Symptom string

// The kinds of faults.
const (
	Drop     Symptom = "drop"     // the connection closes without a response
	Hang     Symptom = "hang"     // no response until the caller disconnects or the Service is closed
	HTML     Symptom = "html"     // an HTML page instead of the true response
	Status   Symptom = "status"   // an HTTP status instead of the true response
	Redirect Symptom = "redirect" // a redirect with status 307 to /redirected, whose requests count as wire.Other
	Types    Symptom = "types"    // JSON whose fields have the wrong types
	Code     Symptom = "code"     // the error code Fault.Code instead of the true response
)

// Fault says which calls fail, and in which way. If several faults match a call, only the first
// one acts.
type Fault struct {
	On    wire.Action        // "" = every action
	When  func(Attempt) bool `json:"-"` // selects calls; nil = all calls; must be safe for concurrent use
	Share float64            // random share of the matching calls that fail; 0 = all
	Times int                // maximum number of calls that fail; 0 = no limit

	Kind     Symptom
	Accepted bool   // the call takes effect before it fails
	Code     string // for the kind Code: an error code of the protocol; CAPCHA_NOT_READY is valid in each protocol
	Status   int    // for the kind Status: the HTTP status; 0 = 500
}

const typesBody = `{"status":{"code":"1"},"request":[{"id":null}],"errorId":"none","taskId":[true],"solution":7}`

// armedFault is a fault in force together with its state, which the mutex of the Service guards.
type armedFault struct {
	Fault
	dice *rand.Rand
	acts int // number of calls that the fault has made fail
}

// SetFaults replaces the faults in force for all later calls. A call without arguments removes all
// faults. With the same seed and the same sequence of matching calls, the same calls fail.
func (s *Service) SetFaults(faults ...Fault) {
	armed := make([]*armedFault, len(faults))
	for i, one := range faults {
		armed[i] = &armedFault{Fault: one, dice: rand.New(rand.NewPCG(s.opts.Seed, uint64(i)))}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = armed
}

// serveFaults handles PUT /faults. The body is a JSON list of Fault, which replaces the faults in
// force. An invalid list changes nothing.
func (s *Service) serveFaults(w http.ResponseWriter, r *http.Request) {
	var faults []Fault
	if err := json.NewDecoder(r.Body).Decode(&faults); err != nil {
		http.Error(w, "reading the faults: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.SetFaults(faults...)
	w.WriteHeader(http.StatusNoContent)
}

// fault returns the fault that acts on a call, or nil if the call does not fail.
func (s *Service) fault(q *query) *armedFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if (f.On != "" && f.On != q.Action) || (f.When != nil && !f.When(q.Attempt)) ||
			f.Times > 0 && f.acts == f.Times || f.Share > 0 && f.dice.Float64() >= f.Share {
			continue
		}
		f.acts++
		return f
	}
	return nil
}

// failCall executes the fault that acts on a call. The argument run carries out the call.
func (s *Service) failCall(w http.ResponseWriter, r *http.Request, q *query, fault *armedFault, run func() wire.Reply) {
	if fault.Accepted {
		run()
	}
	reply, status := wire.Reply{Type: wire.PlainText}, http.StatusOK
	switch fault.Kind {
	case Code:
		reply = q.refuse(fault.Code)
	case HTML:
		reply = wire.Reply{Type: "text/html; charset=utf-8", Body: []byte("<!DOCTYPE html><h1>502 Bad Gateway</h1>\n")}
	case Types:
		reply = wire.Reply{Type: wire.JSONText, Body: []byte(typesBody)}
	case Status:
		status = cmp.Or(fault.Status, http.StatusInternalServerError)
		reply.Body = []byte(http.StatusText(status))
	case Redirect:
		status = http.StatusTemporaryRedirect
		w.Header().Set("Location", "/redirected")
	case Hang:
		select {
		case <-r.Context().Done():
		case <-s.ending.Done():
		}
		panic(http.ErrAbortHandler)
	default: // Drop
		// net/http documents that this panic closes the connection and logs nothing.
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", reply.Type)
	w.WriteHeader(status)
	_, _ = w.Write(reply.Body)
}
