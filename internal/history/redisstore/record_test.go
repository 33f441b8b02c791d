package redisstore

import (
	"slices"
	"testing"
	"time"

	"poold/internal/history"
)

// The choice of the provider travels in the column of the identity. A version that does not know the
// choice reads all other columns, and records of that version have no choice.
func TestOlderVersionsReadRecordsWithAChoice(t *testing.T) {
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := history.Record{ID: "ORDER.0123456789abcdef0123456789abcdef", Identity: "0123456789abcdef0123456789abcdef", Ended: ended, Target: "login", Provider: "acme", Choice: "explore", How: history.Solved, Price: 7}
	older := func(r *history.Record) []history.Column {
		return slices.DeleteFunc(r.Columns()[2:], func(c history.Column) bool { return c.Name == "choice" })
	}
	var read history.Record
	if err := decode(encodeRecord(r), older(&read)); err != nil || read.Target != "login" || read.Provider != "acme" || read.How != history.Solved || read.Price != 7 {
		t.Errorf("an older version reads %+v, %v", read, err)
	}
	again, err := decodeRecord(line{id: r.ID, at: ended, text: encodeRecord(r)})
	if err != nil || again != r {
		t.Errorf("read %+v, %v", again, err)
	}
	r.Choice = ""
	again, err = decodeRecord(line{id: r.ID, at: ended, text: encode(older(&r))})
	if err != nil || again != r {
		t.Errorf("a record of an older version: %+v, %v", again, err)
	}
}
