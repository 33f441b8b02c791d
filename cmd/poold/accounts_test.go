package main

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// slow returns the options of a provider whose tasks take some seconds.
func slow() simulatedtest.Options {
	o := quick()
	o.Median, o.Min, o.Max = 5*time.Second, 4*time.Second, 6*time.Second
	return o
}

// killUnderWay starts a poold, waits until it has bought 6 tokens, and kills it.
func (w *world) killUnderWay(t testing.TB) {
	t.Helper()
	p := w.start(t)
	testkit.Within(t, 20*time.Second, "six orders to be under way", func() bool {
		s := p.target("login")
		return s.Bought == 6 && s.InFlight == 6
	})
	p.signal(syscall.SIGKILL)
	p.waitForDeath(5 * time.Second)
}

// edit replaces one text in the configuration file by another text.
func (w *world) edit(t testing.TB, old, with string) {
	t.Helper()
	text, err := os.ReadFile(w.config)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%v, %q is not in the file", err, old)
	}
	writeFile(t, w.config, strings.Replace(string(text), old, with, 1))
}

// post sends a request without a body and returns the status of the response.
func (p *process) post(path string) int {
	p.t.Helper()
	response, err := http.Post(p.url+path, "application/json", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// A provider is renamed before a restart, but its account stays the same. The tokens of all its
// orders in flight are collected, and nothing is bought again.
func TestARenamedProvider(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	w := newWorld(t, slow(), terms{depth: 6, timeout: "60s"})
	w.killUnderWay(t)
	w.edit(t, "name: service", "name: renamed")
	p := w.start(t)
	w.atRest(t, p, 20*time.Second)
	if n := ledger(t, w.provider).Totals.Submitted; n != 6 {
		t.Errorf("%d tasks were bought for a depth of 6", n)
	}
	if n := w.drain(t, p, map[string]bool{}); n < 6 {
		t.Errorf("%d tokens in stock", n)
	}
	if said := p.output.String(); strings.Contains(said, "cannot be collected") {
		t.Errorf("the log says: %s", said)
	}
}

// A provider is renamed before a restart. Callbacks for its older tasks contain the old name and
// are accepted, because the same secret signs them.
func TestCallbacksOfARenamedProvider(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	door := newCallbackDoor(t)
	w := newWorld(t, slow(), terms{depth: 6, timeout: "60s", provider: `, callback_url: "` + door.url + `", fallback_after: 7s`})
	w.killUnderWay(t)
	w.edit(t, "name: service", "name: renamed")
	p := w.start(t)
	door.setReplicas(p)
	s := w.atRest(t, p, 20*time.Second)
	if n := ledger(t, w.provider).Totals.Submitted; n != 6 || s.Lost != 0 {
		t.Errorf("%d tasks were bought for a depth of 6, %d lost", n, s.Lost)
	}
	if m := p.metrics(); m[`poold_callbacks_total{outcome="settled"}`] != 6 || m[`poold_callbacks_total{outcome="forged"}`] != 0 {
		t.Errorf("callbacks: %v settled, %v forged", m[`poold_callbacks_total{outcome="settled"}`], m[`poold_callbacks_total{outcome="forged"}`])
	}
}

// Tasks of a provider that the file no longer lists cannot be collected until the file lists the
// provider again. The log reports it once.
func TestARemovedProvider(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	w := newWorld(t, slow(), terms{depth: 6, timeout: "60s", provider: ", concurrency: 7"})
	other := startProvider(t, quick())
	w.killUnderWay(t)
	w.edit(t, `url: "`+w.provider+`"`, `url: "`+other+`"`)
	w.edit(t, "name: service", "name: another")
	p := w.start(t)
	testkit.Within(t, 15*time.Second, "the log to say so", func() bool {
		return strings.Contains(p.output.String(), "paid tasks cannot be collected")
	})
	if s := p.target("login"); s.InFlight != 6 || s.Lost != 0 {
		t.Errorf("%d under way, %d lost", s.InFlight, s.Lost)
	}
	w.edit(t, `- {name: another`, `- {name: service, protocol: in_php, profile: 2captcha, url: "`+w.provider+`", key: 0123456789abcdef0123456789abcdef, first_poll: 200ms, poll_interval: 100ms, timeout: 60s}
  - {name: another`)
	if code := p.post("/-/reload"); code != http.StatusNoContent {
		t.Fatalf("reload: %d", code)
	}
	w.atRest(t, p, 20*time.Second)
	if n := ledger(t, w.provider).Totals.Submitted + ledger(t, other).Totals.Submitted; n != 6 {
		t.Errorf("%d tasks were bought for a depth of 6", n)
	}
	if n := strings.Count(p.output.String(), "paid tasks cannot be collected"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// A reload removes the provider, and one of two replicas is killed. The other replica collects the
// tokens that the killed replica had ordered from this provider.
func TestAReloadAndAKilledReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slow(), terms{depth: 1, timeout: "60s"})
	other := startProvider(t, quick())
	dying := w.start(t)
	living := w.start(t)
	reload := func() {
		for _, p := range []*process{dying, living} {
			if code := p.post("/-/reload"); code != http.StatusNoContent {
				t.Fatalf("reload: %d", code)
			}
		}
	}
	// Both replicas run before the orders are placed. Otherwise the solves could end during a slow
	// start.
	w.atRest(t, living, 20*time.Second)
	w.edit(t, "depth: 1", "depth: 7")
	reload()
	testkit.Within(t, 20*time.Second, "six orders to be under way", func() bool {
		s := living.target("login")
		return s.Bought == 7 && s.InFlight > 0
	})
	w.edit(t, `url: "`+w.provider+`"`, `url: "`+other+`"`)
	w.edit(t, "name: service", "name: another")
	reload()
	dying.signal(syscall.SIGKILL)
	s := w.atRest(t, living, 20*time.Second)
	if n := ledger(t, w.provider).Totals.Submitted + ledger(t, other).Totals.Submitted; n != 7 || s.Lost != 0 || s.Failed != 0 {
		t.Errorf("%d tasks were bought for a depth of 7, %d lost, %d failed", n, s.Lost, s.Failed)
	}
}
