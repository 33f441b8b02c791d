package historytest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

type model map[string]history.Record

// write adds the records whose IDs are not in the model.
func (m model) write(batch []history.Record) {
	for _, r := range batch {
		if _, known := m[r.ID]; !known {
			m[r.ID] = r
		}
	}
}

// forget drops the records that ended before the time in the argument oldest.
func (m model) forget(oldest time.Time) {
	maps.DeleteFunc(m, func(_ string, r history.Record) bool { return r.Ended.Before(oldest) })
}

func (m model) page(selects func(history.Record) bool, q history.Query) (found []history.Record, more bool) {
	for _, r := range m {
		if selects(r) && selected(r.Ended, r.ID, r.Target, q) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b history.Record) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(b.ID, a.ID)) })
	if len(found) > q.Limit {
		return found[:q.Limit], true
	}
	return found, false
}

// task returns all records with a task id, the newest first. A store may return any of them.
func (m model) task(task string) []history.Record {
	if task == "" || history.IsOrder(task) {
		return nil
	}
	found, _ := m.page(func(r history.Record) bool { return r.Task == task }, history.Query{Limit: len(m) + 1})
	return found
}

func selected(at time.Time, id, target string, q history.Query) bool {
	return (q.From.IsZero() || !at.Before(q.From)) && (q.To.IsZero() || at.Before(q.To)) &&
		(q.Before == history.Position{} || cmp.Or(at.Compare(q.Before.Ended), cmp.Compare(id, q.Before.ID)) < 0) &&
		(q.Targets == nil || slices.Contains(q.Targets, target))
}

// day returns the figures of a day.
func (m model) day(day time.Time) history.Day {
	sum := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for _, r := range m {
		if dayOf(r.Ended).Equal(dayOf(day)) {
			owned := history.Owned{Target: r.Target, Owner: r.Owner}
			sum.Types[r.Type] = sum.Types[r.Type].Plus(r.Figures())
			sum.Targets[owned] = sum.Targets[owned].Plus(r.Figures())
		}
	}
	return sum
}

// dayOf returns the beginning of the UTC day of a time.
func dayOf(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }
