package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/testkit"
)

// Two replicas notice each change of a service and of a target, and act on it. The change is one event in the list, and
// the webhook gets it.
func TestAChangeIsOneEvent(t *testing.T) {
	t.Parallel()
	var posted sync.Map // kinds of events at the webhook
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e events.Event
		_ = json.NewDecoder(r.Body).Decode(&e)
		posted.Store(e.Kind, true)
	}))
	t.Cleanup(hook.Close)
	poor := quick()
	poor.Balance = 4.5
	w := newWorld(t, poor, terms{depth: 2, top: fmt.Sprintf("notify: {url: %q}", hook.URL)})
	replicas := []*process{w.start(t), w.start(t)}
	first, other := replicas[0], replicas[1]
	first.tells(events.BalanceLow)
	// refuse makes the service answer each call of one kind with a code, until each replica answers a take with a status.
	refuse := func(on, code string, status int) {
		t.Helper()
		setFaults(t, w.provider, fmt.Sprintf(`[{"On":%q,"Kind":"code","Code":%q}]`, on, code))
		for _, p := range replicas {
			testkit.Within(t, 20*time.Second, fmt.Sprintf("%d because of %s", status, code), func() bool {
				_, got, err := p.take(t.Context(), http.DefaultClient, "login", "?wait=0s")
				return err == nil && got == status && p.target("login").State != "ok"
			})
		}
	}

	refuse("submit", "IP_BANNED", http.StatusServiceUnavailable)
	first.tells(events.ProviderDown)
	setFaults(t, w.provider, "[]")
	other.order(http.MethodPost, "/providers/service/probe", "", http.StatusOK)
	first.tells(events.ProviderUp, events.ProviderProbed)
	w.atRest(t, first, 20*time.Second)

	refuse("submit", "ERROR_WRONG_GOOGLEKEY", http.StatusUnprocessableEntity)
	setFaults(t, w.provider, "[]")
	other.order(http.MethodPost, "/pool/login/resume", "", http.StatusNoContent)
	first.tells(events.TargetOK)
	w.atRest(t, first, 20*time.Second)

	refuse("poll", "ERROR_CAPTCHA_UNSOLVABLE", http.StatusServiceUnavailable)
	first.tells(events.TargetFailing)
	setFaults(t, w.provider, "[]")
	w.atRest(t, other, 40*time.Second)
	var all []events.Kind
	want := []events.Kind{events.TargetOK, events.TargetFailing, events.TargetOK, events.TargetRefused, events.ProviderUp,
		events.ProviderDown, events.BalanceLow}
	testkit.Within(t, 40*time.Second, "the last event", func() bool {
		all = slices.DeleteFunc(other.tells(want...), func(kind events.Kind) bool { return !slices.Contains(want, kind) })
		return all[0] == events.TargetOK
	})
	testkit.DeepEqual(t, "events, the newest first", all, want)
	for _, kind := range want {
		testkit.Within(t, 20*time.Second, "the notification "+string(kind),
			func() bool { _, is := posted.Load(kind); return is })
	}
}
