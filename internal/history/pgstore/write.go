package pgstore

import (
	"context"
	"encoding/json"
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
	Elapsed   int64 `json:"elapsed_ms"`
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
		Elapsed: time.Duration(w.Elapsed) * time.Millisecond, Spent: w.Spent, Unpriced: w.Unpriced,
	}
}

// Write keeps a batch; history.Store says more.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	rows := make([]row, 0, len(batch))
	for _, r := range batch {
		rows = append(rows, rowOf(r))
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return failed("writing records", err)
	}
	return failed("writing records", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		fresh, err := s.insert(ctx, tx, string(text))
		if err != nil || len(fresh) == 0 {
			return err
		}
		return add(ctx, tx, fresh)
	}))
}

// insert keeps the rows that are not there yet, and returns the records of these.
func (s *Store) insert(ctx context.Context, tx postgres.Tx, rows string) (fresh []history.Record, err error) {
	var w row
	err = tx.Each(ctx, w.fields(), func() { fresh = append(fresh, w.record()) },
		`insert into captcha_solves (`+columns+`)
			select `+columns+` from json_populate_recordset(null::captcha_solves, $1::json)
			where ended >= now() - $2::interval order by id
		on conflict (id) do nothing returning `+columns, rows, s.o.Keep)
	return fresh, err
}

// add adds records to the figures of their days.
func add(ctx context.Context, tx postgres.Tx, records []history.Record) error {
	sums := map[place]history.Figures{}
	for _, r := range records {
		p := place{r.Ended.Format(time.DateOnly), r.Target, r.Owner, r.Type}
		sums[p] = sums[p].Plus(r.Figures())
	}
	rows := make([]figures, 0, len(sums))
	for p, f := range sums {
		rows = append(rows, figuresOf(p, f))
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into captcha_figures as f (day, target, owner, type, solved, discarded, failed, refused, lost, elapsed_ms, spent, unpriced)
			select day, target, owner, type, solved, discarded, failed, refused, lost, elapsed_ms, spent, unpriced
			from json_populate_recordset(null::captcha_figures, $1::json) order by day, target, owner, type
		on conflict (day, target, owner, type) do update set solved = f.solved + excluded.solved, discarded = f.discarded + excluded.discarded,
			failed = f.failed + excluded.failed, refused = f.refused + excluded.refused, lost = f.lost + excluded.lost,
			elapsed_ms = f.elapsed_ms + excluded.elapsed_ms, spent = f.spent + excluded.spent,
			unpriced = f.unpriced + excluded.unpriced`, string(text))
	return err
}
