package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/httpapi"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// kinds returns the kinds of the events that a replica shows, the oldest first.
func (p *process) kinds() (kinds []events.Kind) {
	p.t.Helper()
	var list httpapi.EventList
	getJSON(p.t, p.url+"/events", p.key, &list)
	for _, e := range list.Events {
		kinds = append([]events.Kind{e.Kind}, kinds...)
	}
	return kinds
}

// Two replicas notice a fault of the account and a new file at the same time. Both show the same
// list of events, with one event for each change. The command prints the list.
func TestEventsOfTwoReplicas(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	service := simulatedtest.New(quick())
	listening := httptest.NewServer(service)
	t.Cleanup(func() { service.Close(); listening.Close() })
	w := newWorld(t, quick(), terms{service: listening.URL, depth: 2})
	one, two := w.start(t), w.start(t)
	w.atRest(t, one, 20*time.Second)
	both := func(what string, is func(p *process) bool) {
		t.Helper()
		testkit.Within(t, 20*time.Second, what, func() bool { return is(one) && is(two) })
	}
	has := func(kind events.Kind) func(p *process) bool {
		return func(p *process) bool { return slices.Contains(p.kinds(), kind) }
	}

	service.SetFaults(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "IP_BANNED"})
	one.order(http.MethodDelete, "/pool/login/tokens", "", http.StatusNoContent) // so that the replicas buy tokens
	both("the fault", has(events.ProviderDown))
	both("both to know of the fault", func(p *process) bool { return p.providerState() == "down" })
	service.SetFaults()
	two.order(http.MethodPost, "/providers/service/probe", "", http.StatusOK)
	both("the end of the fault", has(events.ProviderUp))
	both("both to know of the end", func(p *process) bool { return p.providerState() != "down" })
	w.edit(t, "depth: 2", "depth: 3")
	both("the new file", func(p *process) bool { return p.target("login").Depth == 3 })
	both("the reload", has(events.ReloadApplied))
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	want := []events.Kind{
		events.ReplicaStarted, events.ReplicaStarted, events.TargetFlushed, events.ProviderDown, events.ProviderProbed, events.ProviderUp, events.ReloadApplied, events.ReplicaStopped,
	}
	// The order is not compared: a refill may meet the fault before the flush has told its event.
	got := two.kinds()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	code, out, errs := runCommand(t, map[string]string{"POOLD_URL": two.url}, "events", "--limit", "3")
	if code != 0 || !strings.Contains(out, "the file") || !strings.Contains(out, "targets changed login.") || !strings.Contains(out, "add --before 17") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
