package history_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
)

// board is an ActiveStore that counts writes. If the field `fails` is true, each call processes its
// first item and then fails.
type board struct {
	shows         map[string]bool
	puts, removes int
	fails         bool
}

func (b *board) PutActive(_ context.Context, orders []history.Record) error {
	for n, o := range orders {
		if b.fails && n > 0 {
			break
		}
		b.shows[o.ID] = true
		b.puts++
	}
	return b.failure(len(orders))
}

func (b *board) RemoveActive(_ context.Context, ids []string) error {
	for n, id := range ids {
		if b.fails && n > 0 {
			break
		}
		delete(b.shows, id)
		b.removes++
	}
	return b.failure(len(ids))
}

func (b *board) failure(n int) error {
	if b.fails && n > 0 {
		return history.ErrDown
	}
	return nil
}

func TestMirrorShowsOrdersUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &board{shows: map[string]bool{}}
		var log bytes.Buffer
		var mu sync.Mutex
		var now []string
		var unread error
		mirror := history.NewMirror(func(context.Context) ([]history.Record, error) {
			mu.Lock()
			defer mu.Unlock()
			var orders []history.Record
			for _, id := range now {
				orders = append(orders, history.Record{ID: id})
			}
			return orders, unread
		}, store, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mirror.Run(ctx) }()
		for _, step := range []struct {
			name          string
			orders        []string
			fails         bool
			unread        error
			shown         []string
			puts, removes int
		}{
			{name: "two begin", orders: []string{"a", "b"}, shown: []string{"a", "b"}, puts: 2},
			{name: "nothing changes", orders: []string{"a", "b"}, shown: []string{"a", "b"}, puts: 2},
			{name: "one ends, one begins", orders: []string{"b", "c"}, shown: []string{"b", "c"}, puts: 3, removes: 1},
			{name: "the journal cannot be read", unread: errors.New("away"), shown: []string{"b", "c"}, puts: 3, removes: 1},
			{name: "half of what begins is written", orders: []string{"b", "c", "d", "e"}, fails: true, shown: []string{"b", "c", "d"}, puts: 4, removes: 1},
			{name: "it is written again as a whole", orders: []string{"b", "c", "d", "e"}, shown: []string{"b", "c", "d", "e"}, puts: 6, removes: 1},
			{name: "one ends, and the answer is lost", orders: []string{"b", "d", "e"}, fails: true, shown: []string{"b", "d", "e"}, puts: 6, removes: 2},
			{name: "it is removed again", orders: []string{"b", "d", "e"}, shown: []string{"b", "d", "e"}, puts: 6, removes: 3},
			{name: "half of what begins, and two end", orders: []string{"b", "f", "g"}, fails: true, shown: []string{"b", "d", "e", "f"}, puts: 7, removes: 3},
			{name: "perhaps shown is removed too", shown: nil, puts: 7, removes: 8},
		} {
			mu.Lock()
			now, store.fails, unread = step.orders, step.fails, step.unread
			mu.Unlock()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := slices.Sorted(maps.Keys(store.shows)); !slices.Equal(got, step.shown) || store.puts != step.puts || store.removes != step.removes {
				t.Errorf("%s: it shows %q after %d and %d writes, want %q, %d and %d",
					step.name, got, store.puts, store.removes, step.shown, step.puts, step.removes)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		// The store goes down three times in the steps above.
		if log := log.String(); strings.Count(log, "cannot show") != 3 || strings.Count(log, "under way again") != 3 {
			t.Errorf("the log has\n%s", log)
		}
	})
}
