package historytest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
)

// memory is the model behind a history.Store.
type memory struct {
	mu sync.Mutex
	m  model
}

func (s *memory) Write(ctx context.Context, batch []history.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		s.m.write(batch)
	}
	return ctx.Err()
}

func (s *memory) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, more := s.m.page(func(r history.Record) bool { return r.Sitekey == sitekey }, q)
	return history.Page{Records: records, More: more}, ctx.Err()
}

func (s *memory) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, errors.New("no such status")
	}
	records, more := s.m.page(func(r history.Record) bool { return r.Status() == status }, q)
	return history.Page{Records: records, More: more}, ctx.Err()
}

func (s *memory) Day(ctx context.Context, day time.Time) (history.Day, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.day(day), ctx.Err()
}

func (s *memory) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.m[id]
	return r, known, ctx.Err()
}

func (s *memory) Task(ctx context.Context, task string) (history.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.m.task(task); len(found) > 0 {
		return found[0], true, ctx.Err()
	}
	return history.Record{}, false, ctx.Err()
}

// auditMemory is the model behind a history.Audit.
type auditMemory struct {
	mu sync.Mutex
	m  auditModel
}

func (a *auditMemory) WriteEntries(ctx context.Context, batch []history.Entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() == nil {
		a.m.write(batch)
	}
	return ctx.Err()
}

func (a *auditMemory) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	entries, more := a.m.entries(key, q)
	return history.Entries{List: entries, More: more}, ctx.Err()
}

func (a *auditMemory) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.m.day(day), ctx.Err()
}

// A store that does what it says passes.
func TestTheModelPasses(t *testing.T) {
	Test(t, func(testing.TB) []history.Store { return []history.Store{&memory{m: model{}}} })
}

// An audit that does what it says passes.
func TestTheModelOfTheAuditPasses(t *testing.T) {
	TestAudit(t, func(testing.TB) []history.Audit { return []history.Audit{&auditMemory{m: auditModel{}}} })
}
