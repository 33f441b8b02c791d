package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// TestOutagesInWords causes the outages of docs/operating.md, one after the other. The status shows
// each outage as one line with its time, cause, consequence and action. The line disappears when
// the outage ends. The log contains no key, and no unknown times. TestTheStoreIsAway covers the
// outages of PostgreSQL and DynamoDB.
func TestOutagesInWords(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	service := simulatedtest.New(slow()) // runs in this process, so that its faults can be chosen
	listening := httptest.NewServer(service)
	t.Cleanup(func() { service.Close(); listening.Close() })
	redis, network := cuttable(t)
	w := newWorld(t, slow(), terms{
		service: listening.URL, redis: redis, depth: 2, timeout: "30s", provider: ", concurrency: 1",
		top: `server: {keys: [{name: story, key: ` + storyKey + `, scopes: [token, status, admin]}]}`,
	})
	w.edit(t, "targets:\n", `targets:
  second: {type: turnstile, sitekey: 1x00000000000000000000BB, pageurl: "https://example.com/", owner: qa@example.com, depth: 2}
  third: {type: turnstile, sitekey: 1x00000000000000000000CC, pageurl: "https://example.com/", owner: qa@example.com, depth: 2}
`)
	p := startPoold(t, w.config, storyKey)
	other := startPoold(t, w.config, storyKey)
	testkit.Within(t, 20*time.Second, "two replicas", func() bool {
		var d struct{ Replicas []struct{ ID string } }
		getJSON(t, p.url+"/status.json", storyKey, &d)
		return len(d.Replicas) == 2
	})
	other.signal(syscall.SIGKILL)
	says := func(what, line string) {
		t.Helper()
		form := regexp.MustCompile("^" + line + "$")
		var d struct {
			Alarms, Notices []string
			Targets         []struct{ State, Reason string }
		}
		defer func() {
			if t.Failed() {
				t.Logf("alarms %q, notices %q", d.Alarms, d.Notices)
			}
		}()
		testkit.Within(t, 20*time.Second, what, func() bool {
			d.Alarms, d.Notices, d.Targets = nil, nil, nil
			getJSON(t, p.url+"/status.json", storyKey, &d)
			for _, target := range d.Targets {
				d.Notices = append(d.Notices, target.State+": "+target.Reason)
			}
			return slices.ContainsFunc(append(d.Alarms, d.Notices...), form.MatchString)
		})
	}
	says("full threads", `starved: 1 of 1 .* of service in use; raise concurrency`)

	each := func(method, path string) {
		t.Helper()
		for _, target := range []string{"login", "second", "third"} {
			p.order(method, "/pool/"+target+path, "", http.StatusNoContent)
		}
	}
	// fullThreads empties the targets, so that they order, and waits until all threads are in use.
	fullThreads := func(after string) {
		t.Helper()
		each(http.MethodDelete, "/tokens")
		says("the end of "+after, `starved: .* in use; .*`)
	}
	recovers := func(what string) {
		t.Helper()
		service.SetFaults()
		p.order(http.MethodPost, "/providers/service/probe", "", http.StatusOK)
		fullThreads(what)
	}
	for _, c := range []struct{ what, code, line string }{
		{"a wrong key", "ERROR_KEY_DOES_NOT_EXIST", `refuses the key \(CODE.*\): nothing is bought; check providers\.service\.key in the configuration file.*`},
		{"an empty balance", "ERROR_ZERO_BALANCE", `reports an empty balance \(CODE.*\): nothing is bought; top up the balance at [^ ]+, then run .poold probe service.`},
		{"a ban", "IP_BANNED", `has banned this machine for a while \(CODE.*\): nothing is bought; wait until the ban ends, .*`},
	} {
		service.SetFaults(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: c.code})
		says(c.what, `Since [0-9:]+ UTC provider service `+strings.ReplaceAll(c.line, "CODE", c.code))
		recovers(c.what)
	}

	service.SetFaults(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_SITEKEY"})
	says("refused targets", `refused: .*ERROR_SITEKEY.*`)
	service.SetFaults()
	each(http.MethodPost, "/resume")
	testkit.Within(t, time.Minute, "each target to get a token over the one thread", func() bool {
		return !slices.ContainsFunc([]string{"login", "second", "third"}, func(name string) bool { return p.target(name).State == "refused" })
	})
	fullThreads("the refusals")

	w.edit(t, "targets:\n", "budget: {per_day: 1}\ntargets:\n")
	says("a budget", `budget: the overall budget is used up.*`)
	w.edit(t, "budget: {per_day: 1}\n", "budget: {per_days: 1}\n")
	refused := func(is bool) func() bool {
		return func() bool {
			var d struct {
				Config struct {
					OK       bool
					Problems []string
				}
			}
			getJSON(t, p.url+"/status.json", storyKey, &d)
			return d.Config.OK != is && strings.Contains(strings.Join(d.Config.Problems, " "), "did you mean per_day?") == is
		}
	}
	testkit.Within(t, 20*time.Second, "the refused file", refused(true))
	w.edit(t, "budget: {per_days: 1}\n", "")
	testkit.Within(t, 20*time.Second, "the repaired file", refused(false))
	fullThreads("the budget")

	network.Stop()
	says("Redis is away", `Since [0-9:]+ UTC .*: no token is handed out and nothing is bought, .*; repair Redis, or correct redis in the configuration file`)
	if err := network.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Within(t, 20*time.Second, "Redis is back", func() bool {
		var d struct{ Redis struct{ OK bool } }
		getJSON(t, p.url+"/status.json", storyKey, &d)
		return d.Redis.OK
	})
	fullThreads("the outage of Redis")

	for _, kind := range []events.Kind{events.ReplicaGone, events.RedisUp, events.BudgetUsedUp} {
		testkit.Within(t, 20*time.Second, "the event "+string(kind), func() bool { return slices.Contains(p.kinds(), kind) })
	}

	const wrong = "wrong-key-of-a-caller-0123456789"
	for range 3 {
		if _, code, err := p.request(context.Background(), http.DefaultClient, "/pool/login/token", "", "Authorization", "Bearer "+wrong); code != http.StatusUnauthorized {
			t.Errorf("a wrong key: %d, %v", code, err)
		}
	}
	testkit.Within(t, 20*time.Second, "the wrong key in the log", func() bool { return strings.Contains(p.output.String(), "does not have a caller's key") })
	log := p.output.String()
	if strings.Count(log, "does not have a caller's key") != 1 || strings.Contains(log, "0001-01-01") || strings.Contains(log, wrong) || strings.Contains(log, storyKey) {
		t.Errorf("the log:\n%s", log)
	}
}
