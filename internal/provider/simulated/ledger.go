package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// Totals are the counters of the whole life of a Service, exact at the moment of the read.
type Totals struct {
	Submitted    int            `json:"submitted"` // accepted; = Solved + Failed + InFlight
	Refused      int            `json:"refused"`   // submits that bought nothing, because of a code or a fault
	Solved       int            `json:"solved"`
	Failed       int            `json:"failed"`
	Collected    int            `json:"collected"` // tasks whose token was the answer to a poll
	Repeated     int            `json:"repeated"`  // such answers beyond a task's first
	InFlight     int            `json:"in_flight"`
	PeakInFlight int            `json:"peak_in_flight"`
	ByAction     map[Action]int `json:"by_action"` // all calls but /ledger and /faults
}

// Sale is one accepted task. A poll whose answer a Fault with Accepted destroyed counts
// as collected: the service cannot know that no answer arrived.
type Sale struct {
	Task        string           `json:"task"`
	Identity    captcha.Identity `json:"identity"` // as read from the parameters; in JSON without the proxy
	ID          captcha.ID       `json:"id"`       // of Identity, with the proxy
	At          time.Time        `json:"at"`
	DueAt       time.Time        `json:"due_at"`
	Failed      bool             `json:"failed"` // is or will be unsolvable
	Polls       int              `json:"polls"`
	Collected   int              `json:"collected"`        // polls that were answered with the token
	Pinged      int              `json:"pinged"`           // pingbacks that were answered with a 2xx
	Report      string           `json:"report,omitempty"` // good | bad
	Token       string           `json:"-"`                // "" for a failed task; for a GeeTest, its values as one text
	TokenSHA256 string           `json:"token_sha256,omitempty"`
}

// Ledger is the document under /ledger.
type Ledger struct {
	Totals Totals `json:"totals"`
	Sales  []Sale `json:"sales"`
}

// Totals reads the counters.
func (s *Service) Totals() Totals { return s.books.read() }

// Sold lists every sale in the order of the submits. It is empty without
// Options.Ledger.
func (s *Service) Sold() []Sale { return s.books.ledger().Sales }

func (b *books) read() Totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totalsLocked()
}

func (b *books) totalsLocked() Totals {
	b.advanceLocked(time.Now())
	t := b.totals
	t.ByAction = maps.Clone(t.ByAction)
	return t
}

// ledger takes totals and sales of one moment.
func (b *books) ledger() Ledger {
	b.mu.Lock()
	totals := b.totalsLocked()
	tasks := make([]task, len(b.sold))
	for i, t := range b.sold {
		tasks[i] = *t
	}
	b.mu.Unlock()

	sales := make([]Sale, len(tasks))
	for i := range tasks {
		sales[i] = tasks[i].sale(b.opts)
	}
	return Ledger{Totals: totals, Sales: sales}
}

func (t *task) sale(opts *Options) Sale {
	sale := Sale{
		Task: strconv.FormatInt(t.number, 10), Identity: t.identity, ID: t.id,
		At: t.at, DueAt: t.due, Failed: t.failed,
		Polls: t.polls, Collected: t.collected, Pinged: t.pinged, Report: t.reported,
	}
	if !t.failed {
		sale.Token = t.token(opts)
		sum := sha256.Sum256([]byte(sale.Token))
		sale.TokenSHA256 = hex.EncodeToString(sum[:])
	}
	return sale
}

func (s *Service) serveLedger(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", wire.JSONText)
	_ = json.NewEncoder(w).Encode(s.books.ledger()) // fails only if the reader is gone
}

// count counts a call.
func (b *books) count(action Action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.ByAction[action]++
}

// refused counts a submit that a fault kept from being accepted.
func (b *books) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Refused++
}
