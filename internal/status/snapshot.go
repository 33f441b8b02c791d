package status

import (
	"slices"
	"sync"

	"poold/internal/pool"
	"poold/internal/strictjson"
	"poold/internal/targets"
)

// Snapshot is the state of the daemon at one time. A Snapshot is immutable and shared by all
// readers. Snapshot is also a prometheus.Collector of its figures.
type Snapshot struct {
	Document *Document // read-only

	set        *targets.Set     // the configuration; its targets are in the order of Document.Targets
	seen       []observation    // stock of the targets, in the order of Document.Targets
	budgetRead bool             // Document.Budget was read for this snapshot
	guests     *pool.GuestStock // the source of Document.Solve; nil = absent or not current
	encode     func() []byte
	brief      func() *Snapshot
}

func newSnapshot(document *Document, set *targets.Set, seen []observation, budgetRead bool, guests *pool.GuestStock) *Snapshot {
	encode := func() []byte { return append(strictjson.Encode(document), '\n') }
	brief := func() *Snapshot { return newSnapshot(document.withoutMinutes(), set, seen, budgetRead, guests) }
	return &Snapshot{
		Document: document, set: set, seen: seen, budgetRead: budgetRead, guests: guests,
		encode: sync.OnceValue(encode), brief: sync.OnceValue(brief),
	}
}

// JSON returns the encoded document. All callers share one encoding, so the result is read-only.
func (s *Snapshot) JSON() []byte { return s.encode() }

// WithoutMinutes returns the same state without Hour.Minutes of the targets. All callers share one
// result.
func (s *Snapshot) WithoutMinutes() *Snapshot { return s.brief() }

// withoutMinutes returns a copy of the document without Hour.Minutes of the targets.
func (d *Document) withoutMinutes() *Document {
	brief := *d
	brief.Targets = slices.Clone(d.Targets)
	for i := range brief.Targets {
		brief.Targets[i].Hour.Minutes = nil
	}
	return &brief
}
