package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// mirrorEvery is the interval of a Mirror's updates. It does not show an order that begins and ends within it.
const mirrorEvery = 5 * time.Second

// ActiveStore shows the orders under way to other programs that read the store.
type ActiveStore interface {
	// PutActive shows orders and ignores the fields of their end. The IDs must differ.
	PutActive(ctx context.Context, orders []Record) error
	// RemoveActive removes orders. Unknown IDs are ignored.
	RemoveActive(ctx context.Context, ids []string) error
}

// Mirror copies this replica's orders under way to an ActiveStore. poold itself reads the journal.
type Mirror struct {
	list  func(ctx context.Context) ([]Record, error)
	to    ActiveStore
	down  outage
	shown map[string]bool // owned by Run, by ID; false = the store failed while it wrote the order
}

// NewMirror returns a Mirror of the orders that list returns.
func NewMirror(list func(ctx context.Context) ([]Record, error), to ActiveStore, log *slog.Logger) *Mirror {
	return &Mirror{list: list, to: to, shown: map[string]bool{}, down: outage{
		log: log, began: "the history's store cannot show the orders under way", ended: "the history's store shows the orders under way again",
	}}
}

// Run mirrors until ctx ends. It leaves the shown orders: the replica that takes over an order shows it too, and the
// store's items expire.
func (m *Mirror) Run(ctx context.Context) error {
	ticker := time.NewTicker(mirrorEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := m.update(ctx); ctx.Err() == nil {
			m.down.note(err)
		}
	}
}

// update writes the changes since the last update.
func (m *Mirror) update(ctx context.Context) error {
	orders, err := m.list(ctx)
	if err != nil {
		return err
	}
	ended := maps.Clone(m.shown)
	var begun []Record
	for _, o := range orders {
		delete(ended, o.ID)
		if !m.shown[o.ID] {
			m.shown[o.ID] = false
			begun = append(begun, o)
		}
	}
	if err := m.to.PutActive(ctx, begun); err != nil {
		return err
	}
	for _, o := range begun {
		m.shown[o.ID] = true
	}
	if err := m.to.RemoveActive(ctx, slices.Collect(maps.Keys(ended))); err != nil {
		return err
	}
	for id := range ended {
		delete(m.shown, id)
	}
	return nil
}
