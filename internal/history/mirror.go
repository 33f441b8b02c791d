package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// mirrorEvery is the interval between two updates of a Mirror. A Mirror may miss an order that begins and ends between
// two updates.
const mirrorEvery = 5 * time.Second

// ActiveStore publishes the orders in flight for programs that read the store.
type ActiveStore interface {
	// PutActive publishes orders. It ignores the fields that only an ended order has. The IDs of the
	// orders must differ.
	PutActive(ctx context.Context, orders []Record) error
	// RemoveActive removes published orders. It ignores unknown IDs.
	RemoveActive(ctx context.Context, ids []string) error
}

// Mirror copies this replica's orders in flight to an ActiveStore. The daemon itself never reads these
// copies; it reads the journal in Redis.
type Mirror struct {
	list  func(ctx context.Context) ([]Record, error)
	to    ActiveStore
	down  outage
	shown map[string]bool // IDs of published orders; false = the store may lack the order; only Run uses the map
}

// NewMirror returns a Mirror. The function list returns the orders that are in flight at this replica.
func NewMirror(list func(ctx context.Context) ([]Record, error), to ActiveStore, log *slog.Logger) *Mirror {
	return &Mirror{list: list, to: to, shown: map[string]bool{}, down: outage{
		log: log, began: "the history's store cannot show the orders under way", ended: "the history's store shows the orders under way again",
	}}
}

// Run copies the orders in flight until ctx ends. After that, the published orders stay in the
// store. If another replica adopts one of these orders, that replica publishes the order too. The
// store itself drops old orders.
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

// update publishes the orders that began since the last update, and removes the orders that ended.
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
