package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
)

// shelf is a store of the audit for tests.
type shelf struct {
	t   *testing.T
	log bytes.Buffer

	mu     sync.Mutex
	ids    []string // IDs of the kept entries
	writes int      // number of writes, including failed writes
	fault  func(ctx context.Context, batch []history.Entry) error
}

// WriteEntries keeps a batch. If the function fault returns an error, WriteEntries keeps no part of
// the batch.
func (s *shelf) WriteEntries(ctx context.Context, batch []history.Entry) error {
	s.mu.Lock()
	s.writes++
	fault := s.fault
	s.mu.Unlock()
	if len(batch) == 0 || len(batch) > history.MostBatch {
		s.t.Errorf("a batch of %d", len(batch))
	}
	if fault != nil {
		if err := fault(ctx, batch); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		s.ids = append(s.ids, e.ID)
	}
	_ = append(batch, history.Entry{ID: "of the store"}) // a store may append to the slice of its batch
	return nil
}

func (s *shelf) setFault(fault func(ctx context.Context, batch []history.Entry) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// away is the fault of a store that does not answer.
func away(context.Context, []history.Entry) error {
	return fmt.Errorf("%w: not now", history.ErrDown)
}

func (s *shelf) countWrites() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// checkEntries checks the entries on the shelf. Each entry with a number in [first, last) must be
// there once, in order. Only the entries in the argument `without` must be missing.
func (s *shelf) checkEntries(first, last int, without ...string) {
	s.t.Helper()
	var want []string
	for i := first; i < last; i++ {
		if id := name(i); !slices.Contains(without, id) {
			want = append(want, id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ids, want) {
		s.t.Errorf("the store has %d entries, want %d", len(s.ids), len(want))
	}
}

func name(i int) string { return fmt.Sprintf("e%06d", i) }

func withAuditor(t *testing.T, do func(t *testing.T, s *shelf, a *history.Auditor, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{t: t}
		a, stop := s.auditor(slog.NewTextHandler(&s.log, nil))
		defer stop()
		do(t, s, a, stop)
	})
}

func (s *shelf) auditor(log slog.Handler) (a *history.Auditor, stop func()) {
	a = history.NewAuditor(s, slog.New(log))
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	return a, sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

func noteAll(a *history.Auditor, first, last int) {
	for i := first; i < last; i++ {
		a.Note(history.Entry{ID: name(i), Key: "key", At: time.Now(), Action: history.Taken})
	}
}

// While the store is down, the auditor queues entries. If the queue is full, it drops and counts
// further entries. The log reports the outage and the drops. After the recovery each queued entry
// arrives once.
func TestAuditorOutlivesAnOutage(t *testing.T) {
	withAuditor(t, func(t *testing.T, s *shelf, a *history.Auditor, _ func()) {
		s.setFault(away)
		for i := range 1070 { // more entries than the queue can hold
			noteAll(a, 10*i, 10*i+10)
			time.Sleep(560 * time.Millisecond)
		}
		if h := a.Health(); h.Queued != 10_000 || h.Dropped != 700 || h.Written != 0 || !strings.Contains(h.Down, "not now") {
			t.Errorf("health %+v", h)
		}
		if n := s.countWrites(); n < 20 || n > 60 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		s.setFault(nil)
		time.Sleep(time.Minute)
		s.checkEntries(0, 10_000)
		noteAll(a, 10_000, 10_050)
		time.Sleep(time.Second)
		s.checkEntries(0, 10_050)
		if h := a.Health(); h != (history.AuditHealth{Written: 10_050, Dropped: 700}) {
			t.Errorf("health %+v", h)
		}
		log := s.log.String()
		if strings.Count(log, "cannot be written") != 1 || strings.Count(log, "written again") != 1 || !strings.Contains(log, "the queue is full") ||
			strings.Count(log, "are dropped") > 3 {
			t.Errorf("logged:\n%s", log)
		}
	})
}

// If the store refuses an entry, or panics because of an entry, the auditor drops only this entry.
func TestAuditorDropsRefusedEntriesAlone(t *testing.T) {
	for what, refuse := range map[string]func() error{
		"refused": func() error { return errors.New("not like this") },
		"a panic": func() error { panic("not like this") },
	} {
		t.Run(what, func(t *testing.T) {
			withAuditor(t, func(t *testing.T, s *shelf, a *history.Auditor, _ func()) {
				s.setFault(func(_ context.Context, batch []history.Entry) error {
					if slices.ContainsFunc(batch, func(e history.Entry) bool { return e.ID == name(137) }) {
						return refuse()
					}
					return nil
				})
				noteAll(a, 0, 250)
				time.Sleep(time.Second)
				s.checkEntries(0, 250, name(137))
				if h := a.Health(); h != (history.AuditHealth{Written: 249, Dropped: 1}) {
					t.Errorf("health %+v", h)
				}
				if log := s.log.String(); strings.Count(log, "are dropped") != 1 || !strings.Contains(log, name(137)) || !strings.Contains(log, "not like this") {
					t.Errorf("logged:\n%s", log)
				}
			})
		})
	}
}

// A batch is written when it is full, or half a second after its first entry. During a slow write the
// auditor gathers the next batch.
func TestEntriesAreWrittenInBatches(t *testing.T) {
	withAuditor(t, func(t *testing.T, s *shelf, a *history.Auditor, _ func()) {
		time.Sleep(10 * time.Millisecond)
		noteAll(a, 0, history.MostBatch-1)
		synctest.Wait()
		s.checkEntries(0, 0)
		noteAll(a, history.MostBatch-1, history.MostBatch)
		synctest.Wait()
		s.checkEntries(0, history.MostBatch)
		noteAll(a, history.MostBatch, history.MostBatch+1)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		s.checkEntries(0, history.MostBatch+1)

		s.setFault(func(context.Context, []history.Entry) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		})
		before := s.countWrites()
		for i := range 2000 { // one entry each ms
			time.Sleep(time.Millisecond)
			noteAll(a, history.MostBatch+1+i, history.MostBatch+2+i)
			if n := a.Health().Queued; n > 2*history.MostBatch {
				t.Fatalf("%d are queued", n)
			}
		}
		time.Sleep(time.Second)
		s.checkEntries(0, history.MostBatch+2001)
		if n := s.countWrites() - before; n > 40 {
			t.Errorf("%d writes of 2000 entries", n)
		}
	})
}

// When a stop interrupts a write or a pause, the auditor still writes the queued entries.
func TestStopWritesTheQueueAfterAnInterruption(t *testing.T) {
	for what, c := range map[string]struct {
		fault func(ctx context.Context, batch []history.Entry) error
		lines int // number of log lines
	}{
		"of a write": {func(ctx context.Context, _ []history.Entry) error {
			<-ctx.Done()
			return ctx.Err()
		}, 0},
		"of a pause": {away, 2}, // one line for the outage, one for the recovery
	} {
		t.Run(what, func(t *testing.T) {
			withAuditor(t, func(t *testing.T, s *shelf, a *history.Auditor, stop func()) {
				s.setFault(c.fault)
				noteAll(a, 0, 250)
				synctest.Wait()
				s.setFault(nil)
				began := time.Now()
				stop()
				s.checkEntries(0, 250)
				if took := time.Since(began); took != 0 || strings.Count(s.log.String(), "\n") != c.lines {
					t.Errorf("took %v, logged:\n%s", took, s.log.String())
				}
			})
		})
	}
}

// An auditor that stops waits three seconds for a slow store, and logs the number of lost entries.
func TestStopGivesUpAfterThreeSeconds(t *testing.T) {
	withAuditor(t, func(t *testing.T, s *shelf, a *history.Auditor, stop func()) {
		s.setFault(func(ctx context.Context, _ []history.Entry) error {
			select {
			case <-ctx.Done():
			case <-time.After(1100 * time.Millisecond):
			}
			return ctx.Err()
		})
		noteAll(a, 0, 1000)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		s.checkEntries(0, 200)
		if h := a.Health(); h.Queued != 800 || h.Down != "" || strings.Count(s.log.String(), "\n") != 1 || !strings.Contains(s.log.String(), "entries=800") {
			t.Errorf("health %+v, logged:\n%s", h, s.log.String())
		}
	})
}

// stuckLog is a log whose writes block until it is closed.
type stuckLog struct {
	slog.Handler
	read chan struct{}
}

func (l stuckLog) Handle(context.Context, slog.Record) error {
	<-l.read
	return nil
}

// Note does not block if the store does not respond or if the log blocks.
func TestNoteDoesNotBlock(t *testing.T) {
	for what, fault := range map[string]func(ctx context.Context, batch []history.Entry) error{
		"the store": func(ctx context.Context, _ []history.Entry) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"the log": away,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, read := &shelf{t: t}, make(chan struct{})
				a, stop := s.auditor(stuckLog{slog.DiscardHandler, read})
				defer stop()
				defer close(read)
				s.setFault(fault)
				began := time.Now()
				noteAll(a, 0, 20_000)
				synctest.Wait()
				noteAll(a, 0, 100)
				if h := a.Health(); h.Queued != 10_000 || h.Dropped != 10_100 || !time.Now().Equal(began) || s.countWrites() != 1 {
					t.Errorf("health %+v after %v and %d tries", h, time.Since(began), s.countWrites())
				}
			})
		})
	}
}
