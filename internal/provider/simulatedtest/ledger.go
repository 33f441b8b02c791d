package simulatedtest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/provider/wire"
)

// Tally contains counters over the whole life of a Service.
type Tally struct {
	Submitted    int                 `json:"submitted"` // accepted submissions; equals Solved + Failed + InFlight
	Refused      int                 `json:"refused"`   // submissions that bought nothing, after an error code or a fault
	Solved       int                 `json:"solved"`
	Failed       int                 `json:"failed"`
	Collected    int                 `json:"collected"` // tasks whose token was sent in response to a poll
	Repeated     int                 `json:"repeated"`  // further responses with the token of an already collected task
	InFlight     int                 `json:"in_flight"`
	PeakInFlight int                 `json:"peak_in_flight"`
	ByAction     map[wire.Action]int `json:"by_action"` // all calls except /ledger and /faults
}

// Sale is one accepted task. After a poll the task counts as collected, even if a Fault with the
// field Accepted destroyed the response. A real service does not know whether its response was
// lost. The JSON form of the identity omits the proxy.
type Sale struct {
	bought
	Task        string
	CalledBack  int    // number of callbacks with a 2xx response
	Token       string `json:"-"` // the solution as one text; "" for a failed task
	TokenSHA256 string
}

type bought = simulated.Task

// Ledger is the document of GET /ledger.
type Ledger struct {
	Totals Tally  `json:"totals"`
	Sales  []Sale `json:"sales"`
}

// Totals returns the counters of the service.
func (s *Service) Totals() Tally { return s.ledger().Totals }

// Sold lists all sales in the order of their submissions.
func (s *Service) Sold() []Sale { return s.ledger().Sales }

// ledger returns the totals and the sales at the same moment.
func (s *Service) ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks, now := s.core.Tasks(), time.Now()
	l := Ledger{Totals: Tally{ByAction: maps.Clone(s.calls), Submitted: len(tasks),
		Refused: s.calls[Submit] - len(tasks)}, Sales: make([]Sale, len(tasks))}
	for i, t := range tasks {
		sale := Sale{bought: t, Task: strconv.FormatInt(t.Number, 10), CalledBack: s.calledBack[t.Number]}
		if !t.Failed {
			sale.Token = s.core.Token(t)
			sale.TokenSHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte(sale.Token)))
		}
		l.Sales[i] = sale
		switch {
		case now.Before(t.Due):
			l.Totals.InFlight++
		case t.Failed:
			l.Totals.Failed++
		default:
			l.Totals.Solved++
		}
		l.Totals.Collected += min(1, t.Collected)
		l.Totals.Repeated += max(0, t.Collected-1)
		inFlight := 0
		for _, other := range tasks {
			if !other.At.After(t.At) && other.Due.After(t.At) {
				inFlight++
			}
		}
		l.Totals.PeakInFlight = max(l.Totals.PeakInFlight, inFlight)
	}
	return l
}
