package status

import (
	"encoding/json"
	"fmt"
	"sync"

	"poold/internal/pool"
)

// Snapshot is the state of the daemon at one time. It is immutable, and all readers share it. A
// Snapshot is also a prometheus.Collector of its figures.
type Snapshot struct {
	Document *Document // read-only

	seen       []observation    // stock of the targets, in the order of Document.Targets
	budgetRead bool             // Document.Budget was read for this snapshot
	guests     *pool.GuestStock // the source of Document.Solve; nil = absent or not current
	encode     func() ([]byte, error)
}

func newSnapshot(document *Document, seen []observation, budgetRead bool, guests *pool.GuestStock) *Snapshot {
	encode := func() ([]byte, error) {
		body, err := json.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encoding the status: %w", err)
		}
		return append(body, '\n'), nil
	}
	return &Snapshot{Document: document, seen: seen, budgetRead: budgetRead, guests: guests, encode: sync.OnceValues(encode)}
}

// JSON returns the encoded document. All callers share one encoding, so the result is read-only.
func (s *Snapshot) JSON() ([]byte, error) { return s.encode() }
