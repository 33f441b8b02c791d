package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/history/dynamotest"
	"poold/internal/postgres/postgrestest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// endedOrder is one order in a response of /history.
type endedOrder struct {
	ID, Target, Owner, Task, Outcome, Code string
	Price                                  float64
}

type dayFigures struct {
	Target, Type                                     string
	Orders, Solved, Discarded, Failed, Refused, Lost int
	Spent                                            float64
}

// day returns today's figures of the history, by type.
func (p *process) day() []dayFigures {
	p.t.Helper()
	var of struct{ Lines []dayFigures }
	getJSON(p.t, p.URL+"/history/day/"+time.Now().UTC().Format(time.DateOnly), p.key, &of)
	return slices.DeleteFunc(of.Lines, func(f dayFigures) bool { return f.Type == "" })
}

// usage returns the sum that all owners spent today, according to /history/usage.
func (p *process) usage() (spent float64) {
	p.t.Helper()
	var of struct{ Lines []struct{ Spent float64 } }
	today := time.Now().UTC()
	getJSON(p.t, p.URL+"/history/usage?by=owner&from="+today.Format(time.DateOnly)+"&to="+
		today.AddDate(0, 0, 1).Format(time.DateOnly), p.key, &of)
	for _, line := range of.Lines {
		spent += line.Spent
	}
	return spent
}

// spent returns the sum that was spent on targets and guests, according to /status.
func (p *process) spent() (sum float64) {
	p.t.Helper()
	var of struct {
		Targets []struct{ Spent float64 }
		Solve   struct{ Spent float64 }
	}
	getJSON(p.t, p.URL+"/status.json", p.key, &of)
	for _, target := range of.Targets {
		sum += target.Spent
	}
	return sum + of.Solve.Spent
}

// records returns the records of a status, page by page.
func (p *process) records(status string) (all []endedOrder) {
	p.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Records []endedOrder
			Next    string
		}
		getJSON(p.t, p.URL+"/history/orders?limit=100&status="+status+cursor, p.key, &page)
		all = append(all, page.Records...)
		if page.Next == "" {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
}

// initHistory runs the command that prepares the store.
func (w *world) initHistory(t testing.TB, env []string) {
	t.Helper()
	command := exec.Command(os.Args[0], "history", "init", "--config", w.config)
	command.Env = append(slices.Clone(pooldEnvironment), env...)
	if out, err := command.CombinedOutput(); err != nil ||
		!regexp.MustCompile(`ready|there is nothing to prepare`).Match(out) {
		t.Fatalf("%v: %s", err, out)
	}
}

// Even if orders fail and replicas are killed, each order has exactly one record, and the figures
// of the day equal the service's ledger. The callers get each sold token once, or all of them if they share a solve.
func TestTheHistoryEqualsTheLedger(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	emulator := dynamotest.Start(t)
	credentials := []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=" + dynamotest.Secret}
	for name, b := range map[string]struct {
		set func(t *testing.T, with *terms)
		env []string
	}{
		"a cluster": {set: func(t *testing.T, with *terms) {
			with.redis = "redis://" + strings.Join(redistest.Cluster(t), ",redis://")
		}},
		"postgres": {set: func(t *testing.T, with *terms) {
			server := postgrestest.Start(t)
			with.top += fmt.Sprintf("\ndedup: {backend: postgres, url: %q}\nhistory: {backend: postgres, url: %q}",
				server.Database(t), server.Database(t))
		}},
		"dynamodb": {env: credentials, set: func(_ *testing.T, with *terms) {
			with.top += fmt.Sprintf("\nhistory: {backend: dynamodb, table: Solves, endpoint: %q}", emulator.URL)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.FailShare = 0.3
			with := terms{top: buying, depth: 5, provider: ", price_per_1000: 1000"}
			b.set(t, &with)
			w := newWorld(t, o, with)
			for range 2 { // the second call changes nothing
				w.initHistory(t, b.env)
			}
			// Each of the first two replicas kills itself in the middle of an order.
			replicas := []*process{
				w.start(t, append(b.env, crashAt("bought", 6))...), w.start(t, append(b.env, crashAt("ended", 5))...),
				w.start(t, b.env...),
			}
			var callers sync.WaitGroup
			var alone *solvers
			callers.Go(func() {
				alone = ask(t, replicas, 60, func(i int) string { return guest(fmt.Sprint("guest-", i%7)) })
			})
			for i := range 4 {
				callers.Go(func() {
					for range 15 {
						_, _, _ = replicas[2].take(t.Context(), http.DefaultClient, "login", "?wait=5s")
						time.Sleep(time.Duration(20*i) * time.Millisecond)
					}
				})
			}
			callers.Wait()
			living := replicas[2]
			living.tells(events.ReplicaGone)
			replicas[0] = w.start(t, b.env...)
			replicas[0].tells(events.ReplicaBack)
			sharers := ask(t, replicas, 60, func(i int) string { return guest(fmt.Sprint("shared-", i%20), sharing) })
			// nothing is bought while the books are compared
			living.order(http.MethodPost, "/pool/login/pause", "", http.StatusNoContent)
			equal := func() bool {
				orders := 0
				for _, f := range living.day() {
					orders += f.Orders
				}
				return orders >= living.balance() // an order that a kill interrupted may be none of the service's
			}
			defer func() {
				if t.Failed() {
					t.Logf("sold %+v, recorded %+v", ledger(t, w.provider).Totals, living.day())
				}
			}()
			// The orders of a dead replica end within a minute.
			testkit.Within(t, 90*time.Second, "each task to be in the history", func() bool {
				return living.target("login").InFlight == 0 && equal()
			})
			books := ledger(t, w.provider)
			checkHandouts(t, sales(books), alone, sharers)
			sold, failed := map[string]bool{}, map[string]bool{}
			for _, sale := range books.Sales {
				(map[bool]map[string]bool{true: failed, false: sold})[sale.Failed][sale.Task] = true
			}
			day := living.day()
			if len(day) != 1 {
				t.Fatalf("figures %+v", day)
			}
			// If a kill interrupts a submit, the service may or may not have sold the task.
			f := day[0]
			if lost := len(sold) + len(failed) - f.Solved - f.Discarded - f.Failed; lost < 0 || lost > f.Lost ||
				4*f.Lost > f.Orders || f.Refused != 0 {
				t.Errorf("figures %+v; %d sold, %d failed", f, len(sold), len(failed))
			}
			cost := 0.0
			for status, tasks := range map[string]map[string]bool{"solved": sold, "error": failed} {
				for _, r := range living.records(status) {
					cost += r.Price
					if r.Outcome == "lost" {
						delete(sold, r.Task)
						delete(failed, r.Task)
						continue
					}
					if !tasks[r.Task] {
						t.Errorf("a task that is none of the service's, or was recorded before: %+v", r)
					}
					delete(tasks, r.Task)
					if r.Owner == "" || r.Outcome == "failed" && r.Code != "ERROR_CAPTCHA_UNSOLVABLE" {
						t.Errorf("%+v", r)
					}
				}
				testkit.AtMost(t, "tasks that are not recorded as "+string(status), len(tasks), f.Lost)
			}
			// Each order with a price costs 1.
			if day, usage := f.Spent, living.usage(); cost != float64(f.Solved+f.Discarded+f.Lost) || day != cost ||
				usage != cost {
				t.Errorf("the records cost %v, the day %v, the usage %v; %+v", cost, day, usage, f)
			}
			testkit.Within(t, 20*time.Second, "/status to have the same cost", func() bool { return living.spent() == cost })
		})
	}
}

// checkHandouts checks that guests got sold tokens: one each, but the same one for those that share the solve of one
// of 20 pages.
func checkHandouts(t *testing.T, sold map[string]simulatedtest.Sale, alone, sharers *solvers) {
	t.Helper()
	if len(alone.tokens) < 20 || len(sharers.tokens) < 3 || len(sharers.tokens) > 20 {
		t.Errorf("%d of 60 guests and %d of 20 pages have a token; %.3q %.3q", len(alone.tokens), len(sharers.tokens),
			alone.failed, sharers.failed)
	}
	for _, c := range []*solvers{alone, sharers} {
		for token, callers := range c.tokens {
			if sold[hash(token)].Task == "" || c == alone && callers > 1 || alone.tokens[token]*sharers.tokens[token] > 0 {
				t.Errorf("%d callers got a token that the service sold as task %q", callers, sold[hash(token)].Task)
			}
		}
	}
}
