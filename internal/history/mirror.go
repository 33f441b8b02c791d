package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// mirrorEvery is how old what a Mirror shows may be. An order that begins and ends within
// it is not shown.
const mirrorEvery = 5 * time.Second

// ActiveStore shows the orders under way to programs that read the store by themselves.
type ActiveStore interface {
	// PutActive shows orders, of which the end is not read. No ID may be there twice.
	PutActive(ctx context.Context, orders []Record) error
	// RemoveActive shows orders no more, also where they were not shown.
	RemoveActive(ctx context.Context, ids []string) error
}

// Mirror keeps what an ActiveStore shows close to what this replica has under way. It is
// a copy for others: poold itself reads the journal.
type Mirror struct {
	list  func(ctx context.Context) ([]Record, error)
	to    ActiveStore
	log   *slog.Logger
	shown map[string]bool // Run's, by ID; false = perhaps: the store did not say
	down  bool            // Run's: the last try failed
}

// NewMirror makes one; list tells which orders this replica works on.
func NewMirror(list func(ctx context.Context) ([]Record, error), to ActiveStore, log *slog.Logger) *Mirror {
	return &Mirror{list: list, to: to, log: log, shown: map[string]bool{}}
}

// Run mirrors until ctx ends. What is shown by then stays: the replica that takes the
// orders over shows them too, and the store forgets them in the end.
func (m *Mirror) Run(ctx context.Context) error {
	ticker := time.NewTicker(mirrorEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := m.update(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !m.down {
			m.log.Warn("the orders under way cannot be shown in the history's store", "err", err)
		}
		m.down = err != nil
	}
}

// update writes what has changed since the last time.
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
