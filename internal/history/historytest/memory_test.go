package historytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
)

// memory is a history.Store and a history.Audit over the models.
type memory struct {
	keep, keepAudit time.Duration // 0 = for ever

	mu      sync.Mutex
	records model
	entries auditModel
	down    bool
}

func newMemory(keep, keepAudit time.Duration) *memory {
	return &memory{keep: keep, keepAudit: keepAudit, records: model{}, entries: auditModel{}}
}

// use locks the store for a call, drops expired data, and returns an error if the call must
// fail. The caller unlocks the store.
func (s *memory) use(ctx context.Context) error {
	s.mu.Lock()
	if s.keep > 0 {
		s.records.forget(time.Now().Add(-s.keep))
		s.entries.forget(time.Now().Add(-s.keepAudit))
	}
	if s.down && ctx.Err() == nil {
		return fmt.Errorf("%w: the test says so", history.ErrDown)
	}
	return ctx.Err()
}

// setDown starts or ends an outage. A write during the outage writes half of its batch and
// fails.
func (s *memory) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *memory) Write(ctx context.Context, batch []history.Record) error {
	err := s.use(ctx)
	defer s.mu.Unlock()
	if err != nil {
		batch = batch[:len(batch)/2]
	}
	s.records.write(batch)
	return err
}

func (s *memory) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	records, more := s.records.page(func(r history.Record) bool { return r.Sitekey == sitekey }, q)
	return history.Page{Records: records, More: more}, err
}

func (s *memory) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, errors.New("no such status")
	}
	records, more := s.records.page(func(r history.Record) bool { return r.Status() == status }, q)
	return history.Page{Records: records, More: more}, err
}

func (s *memory) Day(ctx context.Context, day time.Time) (history.Day, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	return s.records.day(day), err
}

func (s *memory) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	r, known := s.records[id]
	return r, known, err
}

func (s *memory) Task(ctx context.Context, task string) (history.Record, bool, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	if found := s.records.task(task); len(found) > 0 {
		return found[0], true, err
	}
	return history.Record{}, false, err
}

func (s *memory) WriteEntries(ctx context.Context, batch []history.Entry) error {
	err := s.use(ctx)
	defer s.mu.Unlock()
	if err != nil {
		batch = batch[:len(batch)/2]
	}
	s.entries.write(batch)
	return err
}

func (s *memory) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	entries, more := s.entries.entries(key, q)
	return history.Entries{List: entries, More: more}, err
}

func (s *memory) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	err := s.use(ctx)
	defer s.mu.Unlock()
	return s.entries.day(day), err
}

// The model passes the suite of a store.
func TestModelPasses(t *testing.T) {
	Test(t, func(testing.TB) []history.Store { return []history.Store{newMemory(0, 0)} })
}

// The model passes the suite of an audit.
func TestModelOfTheAuditPasses(t *testing.T) {
	TestAudit(t, func(testing.TB) []history.Audit { return []history.Audit{newMemory(0, 0)} })
}

// The model has separate retention times for records and for entries.
func TestModelKeepsForSeparateTimes(t *testing.T) {
	TestKeepingTimes(t, func(_ testing.TB, keep, keepAudit time.Duration) (history.Store, history.Audit) {
		s := newMemory(keep, keepAudit)
		return s, s
	})
}

// The model passes random stories.
func TestStories(t *testing.T) {
	Stories(t, 10, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			s := newMemory(StoryKeep, StoryKeep)
			Play(t, seed, Place{Stores: []history.Store{s}, Audits: []history.Audit{s}, Down: s.setDown, Bubble: true})
		})
	})
}
