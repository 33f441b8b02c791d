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

// Totals contains counters over the whole life of a Service. All counters are from the same moment.
type Totals struct {
	Submitted    int            `json:"submitted"` // accepted submissions; equals Solved + Failed + InFlight
	Refused      int            `json:"refused"`   // submissions that bought nothing, because of an error code or a fault
	Solved       int            `json:"solved"`
	Failed       int            `json:"failed"`
	Collected    int            `json:"collected"` // tasks whose token was sent in response to a poll
	Repeated     int            `json:"repeated"`  // further responses with the token of an already collected task
	InFlight     int            `json:"in_flight"`
	PeakInFlight int            `json:"peak_in_flight"`
	ByAction     map[Action]int `json:"by_action"` // all calls except /ledger and /faults
}

// Sale is one accepted task. After a poll the task counts as collected, even if a Fault with the
// field Accepted destroyed the response. A real service does not know whether its response was
// lost.
type Sale struct {
	Task        string           `json:"task"`
	Identity    captcha.Identity `json:"identity"` // the identity in the parameters; its JSON form omits the proxy
	ID          captcha.ID       `json:"id"`       // the ID of Identity; it depends on the proxy too
	At          time.Time        `json:"at"`
	DueAt       time.Time        `json:"due_at"`
	Failed      bool             `json:"failed"` // whether the task is unsolvable; this is known before the due time
	Polls       int              `json:"polls"`
	Collected   int              `json:"collected"`        // number of polls that got the token
	Pinged      int              `json:"pinged"`           // number of pingbacks with a 2xx response
	Report      string           `json:"report,omitempty"` // good | bad
	Token       string           `json:"-"`                // the solution as one text; "" for a failed task
	TokenSHA256 string           `json:"token_sha256,omitempty"`
}

// Ledger is the document of GET /ledger.
type Ledger struct {
	Totals Totals `json:"totals"`
	Sales  []Sale `json:"sales"`
}

// Totals returns the counters of the service.
func (s *Service) Totals() Totals { return s.books.read() }

// Sold lists all sales in the order of their submissions. Without Options.Ledger the list is empty.
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

// ledger returns the totals and the sales at the same moment.
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
	_ = json.NewEncoder(w).Encode(s.books.ledger()) // an error means only that the client has disconnected
}

// countCall counts a call.
func (b *books) countCall(action Action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.ByAction[action]++
}

// countRefused counts a submission that a fault prevented.
func (b *books) countRefused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Refused++
}
