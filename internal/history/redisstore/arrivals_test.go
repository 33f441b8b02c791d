//go:build !race

package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb/redistest"
)

// TestArrivalsAreKept runs on every kind of Redis server.
func TestArrivalsAreKept(t *testing.T) {
	const name = "ArrivalsAreKept"
	redistest.OnEvery(t, map[string]func(*testing.T, redistest.Place){name: testArrivalsAreKept}, []string{name})
}

// When a replica writes a minute again, the new value replaces only the minute of the same
// replica. Each hour expires after 25 hours.
func testArrivalsAreKept(t *testing.T, p redistest.Place) {
	prefix := "test-" + t.Name()
	first, second := openDB(t, p, prefix), openDB(t, p, prefix)
	one, two := redisstore.NewArrivals(first), redisstore.NewArrivals(second)
	key := func(target, hour string) string { return prefix + ":arrivals:{" + target + "}:" + hour }
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var many []history.StoredMinute
	for i := range 401 {
		many = append(many, history.StoredMinute{Target: "many", Minute: noon.Add(time.Duration(i) * time.Minute), Text: fmt.Sprint(i % 600)})
	}
	at := func(minute time.Duration, text string) []history.StoredMinute {
		return []history.StoredMinute{{Target: "login", Minute: noon.Add(minute * time.Minute), Text: text}}
	}
	for _, write := range []struct {
		by *redisstore.Arrivals
		of []history.StoredMinute
	}{
		{one, at(59, "1")},
		{two, at(59, "2")},
		{one, at(59, "1 3")},
		{one, at(60, "5")},
		{one, at(0, "0")},
		{one, at(-1, "9")},
		{one, many},
		{one, nil},
	} {
		if err := write.by.Write(t.Context(), write.of); err != nil {
			t.Fatal(err)
		}
	}
	read := func(target string, from, to time.Time) (texts []string) {
		t.Helper()
		found, err := two.Read(t.Context(), target, from, to)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range found {
			texts = append(texts, a.Minute.Format("15:04 ")+a.Text)
		}
		slices.Sort(texts)
		return texts
	}
	if got, want := read("login", noon.Add(time.Minute), noon.Add(time.Hour)), []string{"12:00 0", "12:59 1 3", "12:59 2", "13:00 5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := read("many", noon, noon.Add(24*time.Hour)); len(got) != len(many) {
		t.Errorf("%d of %d minutes", len(got), len(many))
	}
	if got := read("other", noon, noon); got != nil {
		t.Errorf("%q", got)
	}
	if left := first.Slow.PTTL(t.Context(), key("login", "2026-01-02T12")).Val(); left > 25*time.Hour || left < 24*time.Hour+59*time.Minute {
		t.Errorf("kept for %v", left)
	}
	foreign := key("foreign", "2026-01-02T12")
	if err := first.Slow.Set(t.Context(), foreign, "another program's", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(t.Context(), "foreign", noon, noon); err == nil || !strings.Contains(err.Error(), foreign+" holds a string where a hash belongs") {
		t.Errorf("%v", err)
	}
	if err := first.Slow.HSet(t.Context(), key("junk", "2026-01-02T12"), "x:y", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(t.Context(), "junk", noon, noon); err == nil || !strings.Contains(err.Error(), "does not begin with a minute") {
		t.Errorf("%v", err)
	}
}
