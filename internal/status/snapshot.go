package status

import (
	"encoding/json"
	"fmt"
	"sync"

	"poold/internal/pool"
)

// Snapshot is the state of the daemon at one moment, shared by all readers. It is immutable.
// As a prometheus.Collector it gives its figures as metrics.
type Snapshot struct {
	Document *Document // read-only

	seen       []observation    // as Document.Targets
	budgetRead bool             // Document.Budget was read for this snapshot
	guests     *pool.GuestStock // the source of Document.Solve; nil = not known as of now
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

// JSON returns the whole document, which is encoded once for all callers. The result is read-only.
func (s *Snapshot) JSON() ([]byte, error) { return s.encode() }
