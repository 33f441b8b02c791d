package status

import (
	"encoding/json"
	"fmt"
	"sync"

	"poold/internal/pool"
)

// Snapshot is the daemon at one moment, as every reader of its status sees it. It is not
// altered once it is made. As a prometheus.Collector it gives its figures as metrics.
type Snapshot struct {
	Document *Document // not to be altered

	seen       []observation    // as Document.Targets
	budgetRead bool             // Document.Budget is what Redis says now
	guests     *pool.GuestStock // what Document.Solve is made of; nil = not known as of now
	encode     func() ([]byte, error)
}

func newSnapshot(document *Document, seen []observation, budgetRead bool, guests *pool.GuestStock) *Snapshot {
	return &Snapshot{Document: document, seen: seen, budgetRead: budgetRead, guests: guests, encode: sync.OnceValues(func() ([]byte, error) {
		body, err := json.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encoding the status: %w", err)
		}
		return append(body, '\n'), nil
	})}
}

// JSON returns the whole document, encoded once however many ask. It is not to be
// altered.
func (s *Snapshot) JSON() ([]byte, error) { return s.encode() }
