package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/testkit"
)

// memoryEvents is a list of events in memory.
type memoryEvents struct{ record[events.Event] }

func (m *memoryEvents) Note(e events.Event) bool {
	e.ID, e.At = fmt.Sprint(1000+len(m.all())), day
	m.add(e)
	return true
}

func (m *memoryEvents) Recent(context.Context) ([]events.Event, error) {
	list := m.all()
	slices.Reverse(list)
	return list, nil
}

// eventsOf reads the response of GET /events.
func eventsOf(t *testing.T, d *daemon, query string, headers ...string) EventList {
	t.Helper()
	return parseAnswer[EventList](t, d.handle(t, http.MethodGet, "/events"+query, "", headers...))
}

// The list contains the actions of operators. Each action names the operator's key. A key that is limited to some
// targets sees only the events of these targets.
func TestEventsNameTheOperatorsKey(t *testing.T) {
	inBubble(t, sampleSet(allKeys()...), func(t *testing.T, d *daemon) {
		admin := bearer(keyAll)
		hostile := "</script><img src=x onerror=alert(1)>\"\x1b[2J"
		d.events.Note(events.Event{Kind: events.ProviderDown, Subject: hostile, Text: hostile})
		d.events.Note(events.Event{Kind: events.BudgetUsedUp, Subject: "gone", Target: "gone"})
		for _, change := range [][3]string{
			{http.MethodPost, "/pool/staging-login/pause", `{"for":"1h","reason":"the page changes"}`},
			{http.MethodPost, "/pool/staging-login/resume", ""}, {http.MethodDelete, "/pool/staging-login/tokens", ""},
		} {
			d.handle(t, change[0], change[1], change[2], admin, isJSON).check(t, "a change", http.StatusNoContent)
		}
		all := eventsOf(t, d, "", admin)
		if len(all.Events) != 5 || all.Events[4].Text != hostile {
			t.Fatalf("not five events, the hostile one last: %+v", all)
		}
		paused := all.Events[2]
		until := time.Now().Add(time.Hour).UTC().Format("2006-01-02 15:04")
		if paused.Kind != events.TargetPaused || !strings.HasPrefix(paused.Actor, "key ") ||
			paused.Text != "Buying for target staging-login was paused until "+until+" UTC: the page changes." {
			t.Errorf("the event of the pause lacks the key, the end or the reason: %+v", paused)
		}
		if a := d.handle(t, http.MethodGet, "/events", "", admin); strings.ContainsAny(a.body, "<>\x1b") {
			t.Errorf("not escaped: %s", a.body)
		}
		first := eventsOf(t, d, "?limit=3", admin)
		if len(first.Events) != 3 || first.Events[2] != paused {
			t.Errorf("the last three events do not end with the pause: %+v", first)
		}
		limited := eventsOf(t, d, "?limit=5", bearer(keyStaging))
		if len(limited.Events) != 3 || limited.Events[2].ID != paused.ID {
			t.Errorf("a key for staging-*: %+v", limited)
		}
		for _, query := range []string{"?limit=0", "?limit=1001", "?limit=05", "?after=5"} {
			testkit.Equal(t, query,
				d.handle(t, http.MethodGet, "/events"+query, "", admin).status, http.StatusBadRequest)
		}
	})
}
