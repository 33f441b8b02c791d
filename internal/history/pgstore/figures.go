package pgstore

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
)

// days is a table with the figures of UTC days.
type days struct {
	name   string
	key    string   // columns of the primary key after the column day
	counts []string // the columns with figures
}

var (
	figured = days{"captcha_figures", "target, owner, type", figureNames(new(history.Figures).Counts())}
	keyDays = days{"captcha_audit_figures", "key", figureNames(new(history.KeyFigures).Counts())}
)

func figureNames(counts []history.Count) []string {
	names := make([]string, len(counts))
	for i, c := range counts {
		names[i] = c.Name
	}
	return names
}

// figuresRow returns a row as a map from column names to values. The argument key contains the
// columns of the primary key, and counts contains the figures.
func figuresRow(key map[string]any, counts []history.Count) map[string]any {
	row := maps.Clone(key)
	for _, c := range counts {
		row[c.Name] = *c.N
	}
	return row
}

// add adds the figures of each row to the stored row with the same key. If there is no such row, add
// stores the new row.
func (d days) add(ctx context.Context, tx postgres.Tx, rows []map[string]any) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	columns := "day, " + d.key + ", " + strings.Join(d.counts, ", ")
	sums := make([]string, len(d.counts))
	for i, name := range d.counts {
		sums[i] = name + " = f." + name + " + excluded." + name
	}
	_, err = tx.Exec(ctx, `insert into `+d.name+` as f (`+columns+`)
			select `+columns+` from json_populate_recordset(null::`+d.name+`, $1::json) order by day, `+d.key+`
		on conflict (day, `+d.key+`) do update set `+strings.Join(sums, ", "), string(text))
	return err
}

// read reads the figures of a day, unless they have expired. It scans each row into the pointers in
// key and counts, and then calls the function row.
func (d days) read(ctx context.Context, s *Store, day time.Time, keep time.Duration, key []any, counts []history.Count, row func()) error {
	for _, c := range counts {
		key = append(key, c.N)
	}
	return s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		return tx.Each(ctx, key, row, d.query(), day.UTC().Format(time.DateOnly), keep)
	})
}

// query returns the SQL statement of the method read.
func (d days) query() string {
	return `select ` + d.key + `, ` + strings.Join(d.counts, ", ") + ` from ` + d.name + `
		where day = $1::date and day >= ((now() - $2::interval) at time zone 'UTC')::date`
}
