//go:build !race

package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/postgres/postgrestest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// TestFaultsFireTheirAlerts injects each fault that has an alert into a running poold. The alerts are
// evaluated on scrapes of this poold before and during the fault. All metrics and labels in the rules and in the
// dashboard exist in these scrapes.
func TestFaultsFireTheirAlerts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	fired := map[string]bool{}
	var scrapes []scrape
	t.Run("daemons", func(t *testing.T) {
		for name, inject := range map[string]func(*testing.T) *watched{
			"stores": storeFaults, "services": serviceFaults, "demand": demandFaults,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := inject(t)
				w.check()
				mu.Lock()
				defer mu.Unlock()
				for _, s := range w.stories {
					for _, alert := range s.alerts {
						fired[alert] = true
					}
					scrapes = append(append(scrapes, s.before), s.during...)
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	records, alerts := rules(t)
	labels := labelsOf(scrapes...)
	for _, alert := range alerts {
		if !fired[alert.Alert] {
			t.Errorf("no fault fires %s", alert.Alert)
		}
		checkLabels(t, alert.Alert, alert.Expr, labels, records)
	}
	for _, record := range records {
		checkLabels(t, record.Record, record.Expr, labels, records)
	}
	checkDashboard(t, labels, records)
}

const (
	// faultConfig has the parts of pools.yaml that all tests of faults have. It needs the address of
	// Redis, and the URL and further keys of the provider.
	faultConfig = `
server: {keys: [{name: tests, key: ` + key + `, scopes: [token, solve, status, admin]}]}
redis: {url: "redis://%s"}
providers: [{name: main, url: "%s", key: a-key, price_per_1000: 1, first_poll: 200ms, poll_interval: 1s, %s}]
defaults: {owner: qa@example.com}
targets:
`
	// page has the keys of each target, for the name of its page.
	page = `type: recaptcha_v2, sitekey: 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI, pageurl: https://staging.example.com/`
	// login is the target of the first two tests.
	login    = "  login: {" + page + "login, depth: 2}\n"
	tokensOf = `poold_pool_tokens{target="login"} `
)

// service runs the simulated service as a process that solves each task after lead.
func service(t testing.TB, lead time.Duration) string {
	t.Helper()
	return daemontest.Provider(t, simulatedtest.Setup{Median: lead, LedgerHTTP: true})
}

// setFaults replaces the faults of a simulated service.
func setFaults(t testing.TB, url string, faults ...simulatedtest.Fault) {
	t.Helper()
	body, err := json.Marshal(append([]simulatedtest.Fault{}, faults...))
	testkit.NoError(t, err)
	request, err := http.NewRequest(http.MethodPut, url+"/faults", strings.NewReader(string(body)))
	testkit.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(t, err)
	_ = response.Body.Close()
	testkit.Equal(t, "setting the faults", response.StatusCode, http.StatusNoContent)
}

// ledger returns the books of a simulated service.
func ledger(t testing.TB, provider string) (books simulatedtest.Ledger) {
	t.Helper()
	response, err := http.Get(provider + "/ledger")
	testkit.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	testkit.NoError(t, json.NewDecoder(response.Body).Decode(&books))
	return books
}

// call sends a request to poold and fails the test unless the status is the expected one.
func (w *watched) call(want int, method, path, body string) string {
	w.Helper()
	status, answer := w.Call(method, path, body)
	if status != want {
		w.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, answer)
	}
	return answer
}

// take takes a token and returns its id and its text.
func (w *watched) take(target string) (token struct{ ID, Token string }) {
	w.Helper()
	var answer string
	testkit.Within(w.TB, time.Minute, "a token", func() bool { // a starved Redis may not answer for a moment
		status, body, err := w.Try("POST", "/pool/"+target+"/token?wait=20s", "")
		answer = body
		return err == nil && status == http.StatusOK
	})
	testkit.NoError(w, json.Unmarshal([]byte(answer), &token))
	return token
}

// storeFaults injects faults of the file, of reports, of polls and of PostgreSQL, and kills the process.
func storeFaults(t *testing.T) *watched {
	database := postgrestest.Start(t)
	address := database.Database(t)
	redis, url := redistest.Server(t), service(t, 100*time.Millisecond)
	config := fmt.Sprintf(faultConfig, redis, url, "concurrency: 20, timeout: 3s") + login +
		"  other: {" + page + "other, depth: 1}\n" +
		"history: {backend: postgres, url: '" + address + "'}\n"
	w := watch(t, daemontest.Settings{Config: config})

	w.calm(tokensOf+"2", "poold_history_up 1")
	w.Write(config + "colour: blue\n")
	w.fault("an unknown key in the file", []string{"PooldReloadFailed"}, "poold_config_last_reload_successful 0")
	w.Write(config)

	w.calm("poold_config_last_reload_successful 1")
	for range 6 {
		w.call(http.StatusNoContent, "POST", "/pool/login/token/"+w.take("login").ID+"/report", `{"outcome": "rejected"}`)
	}
	w.fault("a site rejects tokens", []string{"PooldTokensRejected"},
		`poold_reports_total{outcome="rejected",target="login"} 6`, tokensOf+"2")

	w.calm()
	setFaults(t, url, simulatedtest.Fault{On: simulatedtest.Poll, Kind: simulatedtest.Drop, Times: 4})
	w.take("login")
	w.fault("no poll of an order is answered", []string{"PooldOrdersLost"}, `poold_orders_lost_total{target="login"} >0`)
	setFaults(t, url)

	w.calm(tokensOf + "2")
	setFaults(t, url, simulatedtest.Fault{On: simulatedtest.Poll, Kind: simulatedtest.Code,
		Code: "ERROR_CAPTCHA_UNSOLVABLE", Times: 7})
	w.take("login")
	w.fault("seven orders fail", []string{"PooldOrdersFail"}, `poold_orders_failed_total{target="login"} 7`, tokensOf+"2")

	w.calm(tokensOf + "2")
	database.Stop(t)
	w.take("login")
	w.fault("PostgreSQL is away", []string{"PooldHistoryDown"}, "poold_history_up 0")

	// Redis keeps 100,000 hand-outs.
	const handouts = "{captcha}:outbox:handouts"
	redistest.Do(t, redis, "EVAL", `local now = redis.call('TIME')[1] .. '000'
		for i = 1, 100000 do redis.call('XADD', KEYS[1], '*', 'at', now, 'kind', 'missed', 'row', '{"key":"k"}') end
		return 1`, 1, handouts)
	w.take("login")
	w.fault("PostgreSQL is away for long", []string{"PooldHistoryDown", "PooldHistoryGaps"},
		`poold_history_unrecorded_total{target="*"} >0`)
	redistest.Do(t, redis, "DEL", handouts)

	database.Up(t)
	w.call(http.StatusNoContent, "DELETE", "/pool/other/tokens", "")
	w.calm("poold_history_up 1", `poold_tokens_flushed_total{target="other"} >0`, "poold_redis_data_lost 0")
	redistest.Do(t, redis, "FLUSHALL")
	w.fault("Redis loses its data", []string{"PooldRedisLostData"}, "poold_redis_data_lost 1", tokensOf+"2")

	w.Signal(syscall.SIGKILL)
	if err := <-w.Ended; err == nil {
		t.Fatal("a killed poold ends without an error")
	}
	if _, _, err := w.Try("GET", "/metrics", ""); err == nil {
		t.Fatal("a killed poold answers")
	}
	w.stories = append(w.stories, story{"poold is killed", []string{"PooldDown", "PooldReplicaDown"}, w.before,
		[]scrape{unreachable}})
	return w
}

// serviceFaults injects faults of the service, and kills Redis while a callback comes.
func serviceFaults(t *testing.T) *watched {
	redis, process := redistest.Process(t)
	url := service(t, 3*time.Second) // an order is in flight for longer than a document of the status
	listen := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	config := fmt.Sprintf(faultConfig, redis, url, "balance: true, callback_url: 'http://"+listen+
		"', fallback_after: 5s, callback_delay: 0s") +
		login
	w := watch(t, daemontest.Settings{Config: config, Listen: listen})
	up := `poold_provider_up{provider="main"} `

	w.calm(tokensOf+"2", `poold_provider_balance{provider="main"} 600`)
	setFaults(t, url, simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code,
		Code: "ERROR_WRONG_USER_KEY"})
	w.take("login")
	w.fault("the service refuses the key", []string{"PooldNoProvider", "PooldProviderDown", "PooldTargetStarved"}, up+"0",
		`poold_target_state{state="starved",target="login"} 1`)

	setFaults(t, url)
	w.call(http.StatusOK, "POST", "/providers/main/probe", "")
	w.calm(tokensOf+"2", up+"1")
	// Another account at the same service, with less money.
	w.Write(strings.Replace(config, url, daemontest.Provider(t, simulatedtest.Setup{Median: time.Second, Balance: 3.5}),
		1))
	w.fault("the money runs out", []string{"PooldBalanceLow"}, `poold_provider_balance{provider="main"} 3.5`)
	w.Write(config)

	w.calm(tokensOf+"2", `poold_provider_balance{provider="main"} 600`)
	setFaults(t, url, simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_GOOGLEKEY"})
	w.take("login")
	w.fault("the service refuses the sitekey", []string{"PooldTargetRefused"},
		`poold_target_state{state="refused",target="login"} 1`)

	setFaults(t, url)
	w.call(http.StatusNoContent, "POST", "/pool/login/resume", "")
	w.calm(tokensOf+"2", `poold_target_state{state="ok",target="login"} 1`)
	w.take("login")
	w.scrapeWith(`poold_orders_in_flight{state="bought",target="login"} 1`)
	testkit.NoError(t, process.Kill())
	w.fault("Redis is killed before a callback", []string{"PooldDeadLetters", "PooldRedisDown"}, "poold_redis_up 0",
		"poold_dead_letters 1")
	return w
}

// demandFaults uses up a budget, and sends more requests than poold has tokens.
func demandFaults(t *testing.T) *watched {
	redis, url := redistest.Server(t), service(t, 2*time.Second)
	file := func(depth int) string {
		return fmt.Sprintf(faultConfig, redis, url, "concurrency: 50}, {name: second, key: b-key, url: '"+url+"'") +
			fmt.Sprintf("  tight: {%stight, depth: %d, budget: {per_hour: 10}}\n", page, depth) +
			"  burst: {" + page + "burst, depth: 20, refill: adaptive}\n"
	}
	w := watch(t, daemontest.Settings{Config: file(7)})
	used := `poold_budget_used{target="tight",window="hour"} `

	full := `poold_pool_tokens{target="tight"} `
	w.calm(full+"7", used+"7")
	// A burst that poold has not learned: four rounds of 20 requests at once.
	burst := story{name: "an unknown burst", alerts: []string{"PooldCallersMiss", "PooldHitRateLow"}, before: w.before}
	missed := 0
	for range 4 {
		for end := missed + 20; missed < end; {
			if status, _ := w.Call("POST", "/pool/burst/token?wait=0s", ""); status == http.StatusServiceUnavailable {
				missed++
			}
		}
		burst.during = append(burst.during,
			w.scrapeWith(fmt.Sprintf(`poold_token_requests_total{outcome="missed",target="burst"} %d`, missed)))
	}
	w.stories = append(w.stories, burst)

	w.calm()
	w.Write(file(8))
	w.fault("a budget is used to 80 %", []string{"PooldBudgetNear"}, used+"8", full+"8")
	w.Write(file(11))
	w.fault("a budget is used up", []string{"PooldBudgetUsedUp"}, used+"10",
		`poold_target_state{state="budget",target="tight"} 1`)
	return w
}
