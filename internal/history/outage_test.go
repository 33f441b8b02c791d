package history_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// refusals contains the times of the calls that a store refused because it was down.
type refusals struct {
	mu    sync.Mutex
	times []time.Time
}

func (r *refusals) refuse() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, time.Now())
	return fmt.Errorf("%w: not now", history.ErrDown)
}

// checkStart checks that an outage began with a refusal at the given time, and that the first pause
// was about a second. The argument slack limits the time from the end of the pause to the next
// attempt.
func (r *refusals) checkStart(t *testing.T, at time.Time, slack time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.times) < 2 || r.times[0].Sub(at) > slack {
		t.Fatalf("the store refused calls at %v, want two and the first one at %v", r.times, at)
	}
	if pause := r.times[1].Sub(r.times[0]); pause < 500*time.Millisecond || pause > 1500*time.Millisecond+slack {
		t.Errorf("the first pause was %v, want 0.5 to 1.5 s", pause)
	}
}

// While the store is down, orders still end, and the log gets one line about the outage. All records
// arrive after the recovery.
func TestSenderOutlivesAnOutage(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		s, _ := p.sender(p.stock.Endings)
		var tries atomic.Int64
		p.setFault(func([]history.Record) error {
			tries.Add(1)
			return fmt.Errorf("%w: not now", history.ErrDown)
		})
		for i := range 100 {
			s.Ended(p.order(i%5, fmt.Sprint("o", i), ends[i%3]))
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

// unswept is an outbox whose sweeps find no orders.
type unswept struct{ history.Outbox }

func (unswept) Sweep(context.Context) ([]captcha.ID, error) { return nil, nil }

// halfSweep is an outbox whose sweeps find one identity and then fail.
type halfSweep struct{ history.Outbox }

func (halfSweep) Sweep(context.Context) ([]captcha.ID, error) {
	return []captcha.ID{identity(1).ID()}, errors.New("half of it is not known")
}

// countedSweep is an outbox that counts its sweeps. Each sweep fails.
type countedSweep struct {
	history.Outbox
	n *atomic.Int64
}

func (c countedSweep) Sweep(context.Context) ([]captcha.ID, error) {
	c.n.Add(1)
	return nil, errors.New("no sweep")
}

// A replica sweeps every 30 to 60 seconds. A failed sweep is logged at the level debug, and not at
// all if the replica stops.
func TestSweepsAreRare(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		var n atomic.Int64
		_, stop := p.sender(countedSweep{p.stock.Endings, &n})
		const hours = 10
		time.Sleep(hours * time.Hour)
		stop()
		if n.Load() < 60*hours || n.Load() > 120*hours {
			t.Errorf("%d sweeps in %d hours", n.Load(), hours)
		}
		if int64(strings.Count(p.log.String(), "no sweep")) != n.Load() || !strings.Contains(p.log.String(), "level=DEBUG") {
			t.Errorf("%d sweeps, logged:\n%.300s", n.Load(), p.log.String())
		}
	})
}

// stoppedSweep is an outbox whose sweep runs until the replica stops.
type stoppedSweep struct{ history.Outbox }

func (stoppedSweep) Sweep(ctx context.Context) ([]captcha.ID, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// If the stop of the replica ends a sweep, the sweep does not count as failed.
func TestASweepThatTheStopEndsIsNotLogged(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		_, stop := p.sender(stoppedSweep{p.stock.Endings})
		time.Sleep(time.Minute)
		stop()
		if p.log.Len() > 0 {
			t.Error(p.log.String())
		}
	})
}

// A sweep that fails halfway has already found some ended orders. These orders are sent.
func TestFailedSweepSendsItsFindings(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		s, _ := p.sender(halfSweep{p.stock.Endings})
		p.order(1, "found", history.Solved)
		time.Sleep(time.Minute)
		if h := s.Health(); h.Sent != 1 {
			t.Errorf("health %+v, want a sent record", h)
		}
	})
}

// After a recovery a second outage begins like the first one: the first pause is a second, the
// field Since contains a new time, and the log gets two lines.
func TestSecondOutageOfTheStoreBeginsAnew(t *testing.T) {
	inPlace(t, func(t *testing.T, p *place) {
		s, _ := p.sender(unswept{p.stock.Endings}) // a sweep would find again what the sender forgets
		for n := range 2 {
			down, began := new(refusals), time.Now()
			p.setFault(func([]history.Record) error { return down.refuse() })
			s.Ended(p.order(1, fmt.Sprint("o", n), history.Failed))
			time.Sleep(5 * time.Minute) // the pauses grow to 30 s
			down.checkStart(t, began, 10*time.Millisecond)
			if h := s.Health(); h.Down == "" || h.Since.Sub(began) > 10*time.Millisecond {
				t.Errorf("outage %d began at %v: health %+v", n, began, h)
			}
			p.setFault(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if h := s.Health(); h.Down != "" || h.Sent != int64(n+1) {
				t.Errorf("after outage %d: health %+v", n, h)
			}
			if log := p.log.String(); strings.Count(log, "history cannot be written") != n+1 || strings.Count(log, "history is written again") != n+1 {
				t.Errorf("after outage %d the log has\n%s", n, log)
			}
		}
		p.checkFigures()
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
	inPlace(t, func(t *testing.T, p *place) {
		store := &memory{records: map[string]history.Record{}}
		s, _ := p.senderTo(unswept{p.stock.Endings}, store)
		for n, begin := range []func(captcha.ID){
			func(id captcha.ID) {
				p.dial.SetDown(true)
				s.Ended(id)
			},
			func(id captcha.ID) {
				store.setAfter(func() { p.dial.SetDown(true) })
				s.Ended(id)
			},
		} {
			begin(p.order(1, fmt.Sprint("o", n), history.Failed))
			time.Sleep(time.Minute)
			if h := s.Health(); h.Down != "" || !h.Since.IsZero() {
				t.Errorf("outage %d of Redis: health %+v", n, h)
			}
			p.dial.SetDown(false)
			time.Sleep(time.Minute)
			if left, _, err := p.stock.Endings.Kept(t.Context(), []captcha.ID{identity(1).ID()}, 100); err != nil || len(left) != 0 || store.count() != n+1 {
				t.Errorf("after outage %d: %d ends are left, %v; %d records", n, len(left), err, store.count())
			}
		}
		synctest.Wait()
		if p.log.Len() > 0 {
			t.Errorf("the log has\n%s", p.log.String())
		}
	})
}
