package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"poold/internal/history"
)

// usage is GET /history/usage: what the orders of some UTC days came to, by owner or by
// target.
func (h *solveHistory) usage(w http.ResponseWriter, r *http.Request, c *call) error {
	asked, err := readUsageQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if h.store == nil {
		return errNoHistory()
	}
	first, last, err := asked.days(time.Now(), c.access.set.History.Keep)
	if err != nil {
		return err
	}
	sum, err := read(r, func(ctx context.Context) (usageSum, error) {
		sum := usageSum{}
		for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
			figures, err := h.store.Day(ctx, day)
			if err != nil {
				return nil, err
			}
			for owned, f := range figures.Targets {
				if c.sees(owned.Target) {
					of := asked.line(day, owned)
					sum[of] = sum[of].Plus(f)
				}
			}
		}
		return sum, nil
	})
	if err != nil {
		return err
	}
	answer := HistoryUsage{By: asked.by, First: first.Format(time.DateOnly), Last: last.Format(time.DateOnly), Lines: sum.lines()}
	return respondTable(w, r, answer, answer.table)
}

// usageOf is what a line of the answer is about.
type usageOf struct {
	date string // "" = all days
	history.Owned
}

// line is the one that counts what a target had ordered on a day.
func (q usageQuery) line(day time.Time, of history.Owned) (l usageOf) {
	l.Owned = of
	if q.by == "owner" {
		l.Target = ""
	}
	if q.perDay {
		l.date = day.Format(time.DateOnly)
	}
	return l
}

// usageSum are the figures of each line.
type usageSum map[usageOf]history.Figures

// lines are those of the answer, never nil.
func (s usageSum) lines() []UsageLine {
	lines := make([]UsageLine, 0, len(s))
	for of, f := range s {
		lines = append(lines, UsageLine{of.date, of.Target, of.Owner, dayFigures(f)})
	}
	slices.SortFunc(lines, func(a, b UsageLine) int {
		return cmp.Or(strings.Compare(a.Date, b.Date), strings.Compare(a.Target, b.Target), strings.Compare(a.Owner, b.Owner))
	})
	return lines
}
