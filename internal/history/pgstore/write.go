package pgstore

import (
	"context"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/postgres"
)

// place is what figures are kept by.
type place struct {
	Day    string       `json:"day"` // as 2006-01-02
	Target string       `json:"target"`
	Owner  string       `json:"owner"`
	Type   captcha.Type `json:"type"`
}

// figures are a row of captcha_figures. In JSON its members are the columns.
type figures struct {
	place
	Solved    int64 `json:"solved"`
	Discarded int64 `json:"discarded"`
	Failed    int64 `json:"failed"`
	Refused   int64 `json:"refused"`
	Lost      int64 `json:"lost"`
	ElapsedMS int64 `json:"elapsed_ms"`
	Spent     int64 `json:"spent"`
	Unpriced  int64 `json:"unpriced"`
}

// figuresOf is the row of a place.
func figuresOf(p place, f history.Figures) figures {
	return figures{p, f.Solved, f.Discarded, f.Failed, f.Refused, f.Lost, f.Elapsed.Milliseconds(), f.Spent, f.Unpriced}
}

// sum is what the row says.
func (w *figures) sum() history.Figures {
	return history.Figures{
		Solved: w.Solved, Discarded: w.Discarded, Failed: w.Failed, Refused: w.Refused, Lost: w.Lost,
		Elapsed: time.Duration(w.ElapsedMS) * time.Millisecond, Spent: w.Spent, Unpriced: w.Unpriced,
	}
}

// Write keeps a batch; history.Store says more.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	rows := make([]row, 0, len(batch))
	for _, r := range batch {
		rows = append(rows, rowOf(r))
	}
	return failed("writing records", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		fresh, err := solves.insert(ctx, tx, rows, s.o.Keep)
		if err != nil || len(fresh) == 0 {
			return err
		}
		sums := map[place]history.Figures{}
		for i := range fresh {
			r := fresh[i].record()
			p := place{r.Ended.Format(time.DateOnly), r.Target, r.Owner, r.Type}
			sums[p] = sums[p].Plus(r.Figures())
		}
		added := make([]figures, 0, len(sums))
		for p, f := range sums {
			added = append(added, figuresOf(p, f))
		}
		return figured.add(ctx, tx, added)
	}))
}
