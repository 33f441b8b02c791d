package httpapi

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/httpapi/delivery"
)

// byNewest is the order of a history.Query.
func byNewest(a, b history.Position) int {
	return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(b.ID, a.ID))
}

// finds reports whether a query includes an entry of a target at a position.
func finds(q history.Query, target string, at history.Position) bool {
	return (q.Targets == nil || slices.Contains(q.Targets, target)) && !at.Ended.Before(q.From) && (q.To.IsZero() || at.Ended.Before(q.To)) &&
		(q.Before == history.Position{} || byNewest(q.Before, at) < 0)
}

// memoryHistory is a history.Store in memory.
type memoryHistory struct {
	mu      sync.Mutex
	records []history.Record
	asked   []history.Query
	ids     []string // that Solve was asked for
	down    error    // what each call fails with; nil = none does
}

var _ history.Store = (*memoryHistory)(nil)

func (m *memoryHistory) Write(_ context.Context, batch []history.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range batch {
		if !slices.ContainsFunc(m.records, func(there history.Record) bool { return there.ID == r.ID }) {
			m.records = append(m.records, r)
		}
	}
	return m.down
}

func (m *memoryHistory) Site(_ context.Context, sitekey string, q history.Query) (history.Page, error) {
	return m.page(q, func(r history.Record) bool { return r.Sitekey == sitekey })
}

func (m *memoryHistory) Tasks(_ context.Context, status history.Status, q history.Query) (history.Page, error) {
	return m.page(q, func(r history.Record) bool { return r.Status() == status })
}

func (m *memoryHistory) page(q history.Query, is func(history.Record) bool) (p history.Page, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q)
	for _, r := range m.records {
		at := history.Position{Ended: r.Ended, ID: r.ID}
		if is(r) && finds(q, r.Target, at) {
			p.Records = append(p.Records, r)
		}
	}
	slices.SortFunc(p.Records, func(a, b history.Record) int {
		return byNewest(history.Position{Ended: a.Ended, ID: a.ID}, history.Position{Ended: b.Ended, ID: b.ID})
	})
	if p.More = len(p.Records) > q.Limit; p.More {
		p.Records = p.Records[:q.Limit]
	}
	return p, m.down
}

func (m *memoryHistory) Task(_ context.Context, task string) (history.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		if r.Task == task {
			return r, true, m.down
		}
	}
	return history.Record{}, false, m.down
}

func (m *memoryHistory) Day(_ context.Context, day time.Time) (history.Day, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for _, r := range m.records {
		if r.Ended.Format(time.DateOnly) == day.Format(time.DateOnly) {
			owned := history.Owned{Target: r.Target, Owner: r.Owner}
			d.Types[r.Type] = d.Types[r.Type].Plus(r.Figures())
			d.Targets[owned] = d.Targets[owned].Plus(r.Figures())
		}
	}
	return d, m.down
}

func (m *memoryHistory) Solve(_ context.Context, id string) (history.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = append(m.ids, id)
	for _, r := range m.records {
		if r.ID == id {
			return r, true, m.down
		}
	}
	return history.Record{}, false, m.down
}

// lastAsked is the last query.
func (m *memoryHistory) lastAsked() history.Query {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[len(m.asked)-1]
}

// memoryAudit is a history.Audit in memory, to which entries come at once.
type memoryAudit struct {
	mu      sync.Mutex
	entries []history.Entry
	asked   []history.Query
	keys    []string // that Entries was asked for
	days    []string // that KeyDay was asked for
	down    error    // what each question fails with; nil = none does
}

var (
	_ history.Audit    = (*memoryAudit)(nil)
	_ delivery.Auditor = (*memoryAudit)(nil)
)

func (m *memoryAudit) Note(e history.Entry) {
	_ = m.WriteEntries(context.Background(), []history.Entry{e})
}

func (m *memoryAudit) WriteEntries(_ context.Context, batch []history.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range batch {
		if !slices.ContainsFunc(m.entries, func(there history.Entry) bool { return there.Key == e.Key && there.At.Equal(e.At) && there.ID == e.ID }) {
			m.entries = append(m.entries, e)
		}
	}
	return nil
}

func (m *memoryAudit) Entries(_ context.Context, key string, q history.Query) (found history.Entries, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.keys = append(m.asked, q), append(m.keys, key)
	place := func(e history.Entry) history.Position { return history.Position{Ended: e.At, ID: e.ID} }
	for _, e := range m.entries {
		if e.Key == key && finds(q, e.Target, place(e)) {
			found.List = append(found.List, e)
		}
	}
	slices.SortFunc(found.List, func(a, b history.Entry) int { return byNewest(place(a), place(b)) })
	if found.More = len(found.List) > q.Limit; found.More {
		found.List = found.List[:q.Limit]
	}
	return found, m.down
}

func (m *memoryAudit) KeyDay(_ context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.days = append(m.days, day.Format(time.DateOnly))
	figures := map[string]history.KeyFigures{}
	for _, e := range m.entries {
		if e.At.Format(time.DateOnly) == day.Format(time.DateOnly) {
			figures[e.Key] = figures[e.Key].Plus(e.Figures())
		}
	}
	return figures, m.down
}

// noted are the entries so far.
func (m *memoryAudit) noted() []history.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.entries)
}
