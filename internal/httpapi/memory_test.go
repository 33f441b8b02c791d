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

// byNewest compares two positions in the sort order of a history.Query.
func byNewest(a, b history.Position) int {
	return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(b.ID, a.ID))
}

// findPage returns the page of a query. The function positionOf returns the target and the position
// of an element.
func findPage[T any](all []T, q history.Query, positionOf func(T) (string, history.Position)) (page []T, more bool) {
	for _, one := range all {
		target, at := positionOf(one)
		if (q.Targets == nil || slices.Contains(q.Targets, target)) && !at.Ended.Before(q.From) && (q.To.IsZero() || at.Ended.Before(q.To)) &&
			(q.Before == history.Position{} || byNewest(q.Before, at) < 0) {
			page = append(page, one)
		}
	}
	slices.SortFunc(page, func(a, b T) int {
		_, one := positionOf(a)
		_, other := positionOf(b)
		return byNewest(one, other)
	})
	return page[:min(len(page), q.Limit)], len(page) > q.Limit
}

type memoryHistory struct {
	mu      sync.Mutex
	records []history.Record
	asked   []history.Query
	ids     []string // arguments of the calls of Solve
	down    error    // error of each call; nil = calls succeed
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
	records := slices.DeleteFunc(slices.Clone(m.records), func(r history.Record) bool { return !is(r) })
	p.Records, p.More = findPage(records, q, func(r history.Record) (string, history.Position) {
		return r.Target, history.Position{Ended: r.Ended, ID: r.ID}
	})
	return p, m.down
}

func (m *memoryHistory) one(is func(history.Record) bool) (r history.Record, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.records, is); i >= 0 {
		return m.records[i], true, m.down
	}
	return r, false, m.down
}

func (m *memoryHistory) Task(_ context.Context, task string) (history.Record, bool, error) {
	return m.one(func(r history.Record) bool { return r.Task == task })
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
	m.ids = append(m.ids, id)
	return m.one(func(r history.Record) bool { return r.ID == id })
}

func (m *memoryHistory) lastAsked() history.Query {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[len(m.asked)-1]
}

// memoryAudit is a history.Audit in memory. New entries are available at once.
type memoryAudit struct {
	mu      sync.Mutex
	entries []history.Entry
	asked   []history.Query
	keys    []string // arguments of the calls of Entries
	days    []string // arguments of the calls of KeyDay
	down    error    // error of each query; nil = queries succeed
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
	entries := slices.DeleteFunc(slices.Clone(m.entries), func(e history.Entry) bool { return e.Key != key })
	found.List, found.More = findPage(entries, q, func(e history.Entry) (string, history.Position) {
		return e.Target, history.Position{Ended: e.At, ID: e.ID}
	})
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

func (m *memoryAudit) noted() []history.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.entries)
}
