package history_test

import (
	"reflect"
	"slices"
	"testing"

	"poold/internal/history"
)

// Counts lists each figure once, so that no store and no sum omits a figure.
func TestCountsListEachFigure(t *testing.T) {
	var figures history.Figures
	var keyFigures history.KeyFigures
	for what, c := range map[string]struct {
		of     any
		counts []history.Count
	}{"figures": {&figures, figures.Counts()}, "figures of keys": {&keyFigures, keyFigures.Counts()}} {
		fields := reflect.ValueOf(c.of).Elem()
		if len(c.counts) != fields.NumField() {
			t.Fatalf("%s: %d of %d fields are listed", what, len(c.counts), fields.NumField())
		}
		for i := range fields.NumField() {
			if fields.Field(i).Addr().Interface() != any(c.counts[i].N) {
				t.Errorf("%s: %s is not at its place in the list", what, fields.Type().Field(i).Name)
			}
		}
	}
	if got, want := figures.Plus(figures), (history.Figures{}); got != want {
		t.Errorf("nothing and nothing is %+v", got)
	}
	one := history.Figures{Solved: 1, Discarded: 2, Failed: 3, Refused: 4, Lost: 5, ElapsedMS: 6, Spent: 7, Unpriced: 8}
	two := history.Figures{Solved: 2, Discarded: 4, Failed: 6, Refused: 8, Lost: 10, ElapsedMS: 12, Spent: 14, Unpriced: 16}
	if got := one.Plus(one); got != two {
		t.Errorf("the sum is %+v, want %+v", got, two)
	}
}

// Neither the names nor the order of the columns may change. Stores use the names, and redisstore
// identifies columns by their position.
func TestColumnsStay(t *testing.T) {
	for what, c := range map[string]struct{ columns, want []string }{
		"a record": {names(new(history.Record).Columns()), []string{
			"id", "ended", "identity", "target", "owner", "type", "sitekey", "pageurl", "provider", "task", "how", "code",
			"placed", "submitted", "solved", "polls", "callback", "price", "choice",
		}},
		"an entry": {names(new(history.Entry).Columns()), []string{"id", "at", "key", "action", "target", "token", "source", "image", "price"}},
	} {
		if !slices.Equal(c.columns, c.want) {
			t.Errorf("%s: %q, want %q", what, c.columns, c.want)
		}
	}
}

func names(columns []history.Column) (names []string) {
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names
}
