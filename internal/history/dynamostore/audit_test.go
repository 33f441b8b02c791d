//go:build !race

package dynamostore

import (
	"testing"
	"time"

	"poold/internal/history"
)

// An entry is one item. The figures of its key are a second item. These figures are not part of the
// day's figures.
func TestItemsOfTheAudit(t *testing.T) {
	s, _ := openThrough(t, nil)
	s.keepAudit = 48 * time.Hour
	e := entries(yesterday(), 1)[0]
	e.Action, e.Source, e.Image, e.Price = history.Bought, "solve", "sha256:00, 5 bytes", 2_990_000
	mustNote(t, s, e)
	found := query(t, s, nil, "PK = :pk", map[string]string{":pk": "KEY#ci-login"}, true, 10)
	if len(found) != 1 {
		t.Fatalf("%d items, want 1", len(found))
	}
	got := found[0]
	for name, want := range map[string]string{
		"SK": stamp(e.At) + "#" + e.ID, "key": e.Key, "action": "bought", "target": e.Target, "token": e.Token, "source": "solve", "image": e.Image,
	} {
		if got.text(name) != want {
			t.Errorf("%s is %q, want %q", name, got.text(name), want)
		}
	}
	if got.number("price") != e.Price || got.number("ttl") != e.At.Add(48*time.Hour).Unix() || len(got) != 10 {
		t.Errorf("an entry: %v", got)
	}
	figures := query(t, s, nil, "PK = :pk", map[string]string{":pk": "STATS#" + date(e.At)}, true, 10)
	if len(figures) != 1 {
		t.Fatalf("%d items have figures, want 1", len(figures))
	}
	if i := figures[0]; i.text("SK") != "KEY#ci-login" || i.number("bought") != 1 ||
		i.number("ttl") != yesterday().Add(12*time.Hour+48*time.Hour).Unix() {
		t.Errorf("a key's figures: %v", i)
	}
	if day, err := s.Day(t.Context(), e.At); err != nil || len(day.Types)+len(day.Targets) != 0 {
		t.Errorf("the day: %v, %v", day, err)
	}
}

// No read returns an entry after its ttl, even if its item still exists.
func TestExpiredEntriesNeverShow(t *testing.T) {
	s, _ := openThrough(t, nil)
	s.keepAudit = time.Hour
	now := time.Now().UTC().Truncate(time.Millisecond)
	mustNote(t, s, append(entries(now.Add(-time.Hour-30*time.Second), 30), entries(now.Add(-time.Hour+time.Minute), 3)...)...)
	old := entries(now.Add(-50*time.Hour), 1)[0]
	mustNote(t, s, old)
	if raw := query(t, s, nil, "PK = :pk", map[string]string{":pk": "KEY#ci-login"}, false, 100); len(raw) != 34 {
		t.Fatalf("%d items, want 34", len(raw))
	}
	for _, q := range []history.Query{{Limit: 1}, {Limit: 3}, {Limit: 100}, {Limit: 100, From: now.Add(-99 * time.Hour)}, {Limit: 3, Targets: []string{"staging-login"}}} {
		page, err := s.Entries(t.Context(), "ci-login", q)
		if err != nil || len(page.List) != min(q.Limit, 3) || page.More != (q.Limit < 3) {
			t.Errorf("%+v: %d entries, more: %v, %v", q, len(page.List), page.More, err)
		}
	}
	if keys, err := s.KeyDay(t.Context(), old.At); err != nil || len(keys) != 0 {
		t.Errorf("a day that is over for long: %v, %v", keys, err)
	}
	s.keepAudit = 99 * time.Hour
	late := entries(old.At, 1)[0]
	mustNote(t, s, late)
	if keys, err := s.KeyDay(t.Context(), old.At); err != nil || keys["ci-login"].HandedOut == 0 {
		t.Errorf("a day that is kept: %v, %v", keys, err)
	}
}
