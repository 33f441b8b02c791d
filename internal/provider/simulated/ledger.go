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
)

// Totals are the counters of the whole life of a Service. They are exact at
// the moment at which they are read.
type Totals struct {
	Submitted    int            `json:"submitted"` // accepted; = Solved + Failed + InFlight
	Refused      int            `json:"refused"`   // submits that bought nothing, for a code or for a fault
	Solved       int            `json:"solved"`
	Failed       int            `json:"failed"`
	Collected    int            `json:"collected"` // tasks whose token a poll was answered with
	Repeated     int            `json:"repeated"`  // such answers beyond a task's first
	InFlight     int            `json:"in_flight"`
	PeakInFlight int            `json:"peak_in_flight"`
	Calls        int            `json:"calls"` // of every kind but /ledger and /faults
	ByAction     map[Action]int `json:"by_action"`
}

// Sale is one accepted task. A poll that a Fault with Accepted spoiled counts
// as answered: the service cannot know that nothing arrived.
type Sale struct {
	Task           string           `json:"task"`
	Identity       captcha.Identity `json:"identity"` // as read from the parameters; in JSON without the proxy
	ID             captcha.ID       `json:"id"`       // of Identity, with the proxy
	At             time.Time        `json:"at"`
	DueAt          time.Time        `json:"due_at"`
	Failed         bool             `json:"failed"` // is or will be unsolvable
	Polls          int              `json:"polls"`
	Collected      int              `json:"collected"` // polls that were answered with the token
	FirstCollected time.Time        `json:"first_collected,omitzero"`
	Pings          int              `json:"pings"`            // pingbacks that were tried, answered or not
	Pinged         int              `json:"pinged"`           // those that were answered with a 2xx
	Report         string           `json:"report,omitempty"` // good | bad
	Token          string           `json:"-"`                // "" for a failed task; of a GeeTest, its values as one text
	TokenSHA256    string           `json:"token_sha256,omitempty"`
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

// read is the counters.
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
		Polls: t.polls, Collected: t.collected, FirstCollected: t.firstCollected,
		Pings: t.pings, Pinged: t.pinged, Report: t.report,
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
	w.Header().Set("Content-Type", jsonText)
	_ = json.NewEncoder(w).Encode(s.books.ledger()) // fails only when the reader went
}

// count records a call and returns how many of its action there were.
func (b *books) count(c Call) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Calls++
	b.totals.ByAction[c.Action]++
	return b.totals.ByAction[c.Action]
}

// refused records a submit that a fault kept from being accepted.
func (b *books) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Refused++
}
