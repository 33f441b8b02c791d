package httpapi

import (
	"context"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/pool"
	"poold/internal/testkit"
)

// memoryHistory is a history in memory that notes its queries.
type memoryHistory struct {
	*historytest.Memory

	mu    sync.Mutex
	asked []history.Query
	days  []string
	down  error // error of each query; nil = queries succeed
}

func newMemoryHistory() *memoryHistory {
	return &memoryHistory{Memory: historytest.NewMemory(ages, ages)}
}

// ages is a retention that is longer than the age of each row of a test.
const ages = 100 * 365 * 24 * time.Hour

func (m *memoryHistory) Find(ctx context.Context, q history.Query) (history.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked = append(m.asked, q); m.down != nil {
		return history.Page{}, m.down
	}
	return m.Memory.Find(ctx, q)
}

func (m *memoryHistory) Days(ctx context.Context, day time.Time) ([]history.Sum, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.days = append(m.days, day.Format(time.DateOnly)); m.down != nil {
		return nil, m.down
	}
	return m.Memory.Days(ctx, day)
}

func (m *memoryHistory) lastAsked() history.Query {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[len(m.asked)-1]
}

// noted returns the hand-outs and reports that wait in Redis for the history, oldest first.
func (d *daemon) noted(t testing.TB) (list []history.Handout) {
	t.Helper()
	rows, _, err := d.stock.Rows(context.Background(), history.MostBatch)
	testkit.NoError(t, err)
	var page history.Page
	for i := range rows {
		if rows[i].Stream == pool.Handouts {
			row, err := history.RowOf(&rows[i])
			testkit.NoError(t, err)
			page.Rows = append(page.Rows, row.Text)
		}
	}
	list, err = history.Decode[history.Handout](page)
	testkit.NoError(t, err)
	return list
}
