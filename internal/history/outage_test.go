package history_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
)

// While the store is down, orders still end, and the log gets one line about the outage. All records
// arrive after the recovery.
func TestSenderOutlivesAnOutage(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		s, _ := p.sender(p.pool)
		var tries atomic.Int64
		p.setFault(func([]history.Record) error {
			tries.Add(1)
			return fmt.Errorf("%w: not now", history.ErrDown)
		})
		for i := range 100 {
			p.order(i%5, fmt.Sprint("o", i), ends[i%3])
			s.Ended()
			time.Sleep(6 * time.Second)
		}
		if h := s.Health(); !strings.Contains(h.Down, "not now") || time.Since(h.Since) < 9*time.Minute || h.Sent != 0 {
			t.Errorf("health %+v", h)
		}
		if n := tries.Load(); n < 20 || n > 60 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		p.setFault(nil)
		time.Sleep(time.Minute)
		if h := s.Health(); h.Down != "" || h.Sent != 100 || h.Dropped != 0 {
			t.Errorf("health %+v", h)
		}
		p.checkFigures()
		if n := p.checkRecords(); n != 100 {
			t.Errorf("%d records are listed", n)
		}
		if n := strings.Count(p.log.String(), "\n"); n != 2 {
			t.Errorf("logged:\n%s", p.log.String())
		}
	})
}

// memory is a Writer that keeps records in memory.
type memory struct {
	mu      sync.Mutex
	records map[string]history.Record
	after   func() // called once, after the next write; nil = no call
}

func (m *memory) Write(_ context.Context, batch []history.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range batch {
		m.records[r.ID] = r
	}
	if m.after != nil {
		m.after()
		m.after = nil
	}
	return nil
}

// setAfter sets the function that runs after the next write.
func (m *memory) setAfter(after func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.after = after
}

// count returns the number of records.
func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records)
}

// During an outage of Redis, neither the health nor the log reports the store as down. Redis may
// fail before the ended orders are read, or before they are removed.
func TestRedisOutageLeavesTheStoreUp(t *testing.T) {
	inWorld(t, func(t *testing.T, p *world) {
		store := &memory{records: map[string]history.Record{}}
		s, _ := p.senderTo(p.replica(), store)
		for n, begin := range []func(){
			func() { p.dial.SetDown(true) },
			func() { store.setAfter(func() { p.dial.SetDown(true) }) },
		} {
			time.Sleep(time.Second)
			p.order(1, fmt.Sprint("o", n), history.Failed)
			begin()
			s.Ended()
			time.Sleep(time.Minute)
			if h := s.Health(); h.Down != "" || !h.Since.IsZero() {
				t.Errorf("outage %d of Redis: health %+v", n, h)
			}
			p.dial.SetDown(false)
			time.Sleep(time.Minute)
			if left, _, err := p.pool.Outbox(t.Context(), pool.Ends); err != nil || left != 0 || store.count() != n+1 {
				t.Errorf("after outage %d: %d rows are left, %v; %d records", n, left, err, store.count())
			}
		}
		synctest.Wait()
		if p.log.Len() > 0 {
			t.Errorf("the log has\n%s", p.log.String())
		}
	})
}
