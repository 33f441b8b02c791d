package historytest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// Memory is a history.Sink for tests. It is also the model with which the suite compares other sinks.
type Memory struct {
	keep map[history.RowKind]time.Duration

	mu   sync.Mutex
	rows []history.Row // newest first
	err  error
}

// NewMemory returns an empty Memory that keeps orders and hand-outs for these durations.
func NewMemory(orders, handouts time.Duration) *Memory {
	return &Memory{keep: map[history.RowKind]time.Duration{history.KindOrder: orders, history.KindHandout: handouts}}
}

// Fail makes each call fail with err until Fail(nil). An Append that fails stores half of its rows.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Append implements history.Sink. It ignores rows of the kind KindActive.
func (m *Memory) Append(ctx context.Context, rows []history.Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := cmp.Or(ctx.Err(), m.err)
	if err != nil {
		rows = rows[:len(rows)/2]
	}
	for _, r := range rows {
		known := slices.ContainsFunc(m.rows, func(old history.Row) bool { return old.Kind == r.Kind && old.ID == r.ID })
		if !known && time.Since(r.At) < m.keep[r.Kind] {
			m.rows = append(m.rows, r)
		}
	}
	slices.SortFunc(m.rows, func(a, b history.Row) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return err
}

// Rows returns the kept rows for which selects returns true, the newest first.
func (m *Memory) Rows(selects func(*history.Row) bool) (rows []history.Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if time.Since(r.At) < m.keep[r.Kind] && selects(&r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// Find implements history.Sink.
func (m *Memory) Find(ctx context.Context, q history.Query) (p history.Page, err error) {
	rows := m.Rows(func(r *history.Row) bool { return selects(&q, r) })
	p.More = len(rows) > q.Limit
	for _, r := range rows[:min(len(rows), q.Limit)] {
		p.Rows = append(p.Rows, r.Text)
	}
	return p, cmp.Or(ctx.Err(), m.err)
}

func selects(q *history.Query, r *history.Row) bool {
	return valueOf(r, q.By) == q.Value && (r.Kind == history.KindHandout) == (q.By == history.ByKey) &&
		!r.At.Before(q.From) && (q.To.IsZero() || r.At.Before(q.To)) &&
		(q.Targets == nil || slices.Contains(q.Targets, r.Target)) && (q.Owner == "" || q.Owner == r.Owner) &&
		(q.Before == history.Position{} || cmp.Or(r.At.Compare(q.Before.At), cmp.Compare(r.ID, q.Before.ID)) < 0)
}

func valueOf(r *history.Row, by history.By) string {
	return map[history.By]string{
		history.BySite: r.Sitekey, history.ByStatus: string(r.Status), history.ByID: r.ID, history.ByTask: r.Task,
		history.ByKey: r.Key,
	}[by]
}

// Days implements history.Sink.
func (m *Memory) Days(ctx context.Context, day time.Time) (sums []history.Sum, err error) {
	for _, r := range m.Rows(func(*history.Row) bool { return true }) {
		for _, s := range r.Sums {
			i := slices.IndexFunc(sums, func(of history.Sum) bool {
				return of.Scope == s.Scope && of.Name == s.Name && of.Owner == s.Owner
			})
			switch {
			case s.Day != day.UTC().Format(time.DateOnly):
				continue
			case i < 0:
				i = len(sums)
				sums = append(sums, s)
				sums[i].Figures = history.Figures{}
			}
			sums[i].Add(s.Figures)
		}
	}
	return sums, cmp.Or(ctx.Err(), m.err)
}

// Order returns the row of a solved order that ended at the given time.
func Order(id string, at time.Time) history.Row {
	o := history.Order{
		ID: id, Target: "target", Owner: "owner", Type: captcha.Turnstile, Sitekey: "site", Outcome: history.Solved,
		Task: "task", Status: history.StatusSolved, EndedAt: history.Time{Time: at.UTC().Truncate(time.Millisecond)},
	}
	return o.Row()
}

// Handout returns the row of a token that the key "key" took at the given time.
func Handout(id string, at time.Time) history.Row {
	h := history.Handout{ID: id, Key: "key", Action: history.Taken}
	h.At.Time = at.UTC().Truncate(time.Millisecond)
	return h.Row()
}
