package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

// storyCallers are the callers of TestReplicasRecoverFromEachFault (everyfault_test.go): during its faults they request
// tokens and solves, and record the responses, which checkLedger compares with the figures of poold.
type storyCallers struct {
	s      *everyFault
	client *http.Client
	over   chan struct{}
	end    func() // waits for the last responses
	all    sync.WaitGroup

	mu     sync.Mutex
	bought map[string]int // number of hand-outs to a single caller, by token
	shared map[string]int // number of hand-outs as a shared or repeated solve, by token
	codes  map[string]int // number of all other responses by code
}

func startStoryCallers(s *everyFault) *storyCallers {
	c := &storyCallers{
		s: s, client: &http.Client{Transport: daemontest.Checking(&http.Transport{MaxIdleConnsPerHost: 50})},
		over: make(chan struct{}), bought: map[string]int{}, shared: map[string]int{}, codes: map[string]int{},
	}
	c.end = sync.OnceFunc(func() {
		close(c.over)
		c.all.Wait()
		c.client.CloseIdleConnections()
		s.Logf("answers: %v", c.codes)
	})
	s.Cleanup(c.end)
	for range 2 {
		c.loop(300*time.Millisecond, func(i int, p *process) { c.take(p, "login", "?wait=5s") })
	}
	c.loop(500*time.Millisecond, func(_ int, p *process) { c.take(p, "small", "?wait=0s") })
	c.loop(2*time.Second, func(_ int, p *process) { c.take(p, "refusable", "?wait=0s") })
	c.loop(500*time.Millisecond, func(i int, p *process) { c.solve(p, guest(fmt.Sprint("guest-", i%5))) })
	c.loop(700*time.Millisecond, func(i int, p *process) { c.solve(p, picture(fmt.Sprint("picture-", i), 2<<10)) })
	c.loop(time.Second, func(i int, p *process) {
		var both sync.WaitGroup
		for k := range 2 {
			both.Go(func() { c.solve(s.replicas[(i+k)%3], guest(fmt.Sprint("shared-", i), sharing)) })
		}
		both.Wait()
	})
	c.loop(1500*time.Millisecond, func(i int, p *process) {
		key := fmt.Sprint("job-", i)
		first, code := c.solve(p, guest("repeated"), "Idempotency-Key", key)
		again, repeated := c.solve(s.replicas[(i+1)%3], guest("repeated"), "Idempotency-Key", key)
		if code == http.StatusOK && repeated == http.StatusOK && (again.Token != first.Token || again.Source != "replay") {
			s.Errorf("a repeat got another token: %s, %s", again.ID, again.Source)
		}
	})
	return c
}

// loop runs a caller that sends requests to the replicas in turn, with pauses, until the method end
// is called.
func (c *storyCallers) loop(pause time.Duration, asks func(i int, p *process)) {
	c.all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-c.over:
				return
			case <-time.After(pause):
			}
			asks(i, c.s.replicas[i%len(c.s.replicas)])
		}
	})
}

// take takes a token and returns the status code.
func (c *storyCallers) take(p *process, target, query string) int {
	h, code, err := p.take(context.Background(), c.client, target, query)
	c.note(h.Token, "take", code, "", err)
	return code
}

// solve requests the solution of a captcha.
func (c *storyCallers) solve(p *process, body string, headers ...string) (solveAnswer, int) {
	a, code, err := p.solve(context.Background(), c.client, body, headers...)
	c.note(a.Token, a.Source, code, a.Code, err)
	return a, code
}

func (c *storyCallers) note(token, source string, code int, problem string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.s.Errorf("a caller got no answer: %v", err)
	case code != http.StatusOK:
		c.codes[fmt.Sprint(code, " ", problem)]++
	case source == "shared" || source == "replay":
		c.codes[source]++
		c.shared[token]++
	default:
		c.codes[source]++
		if c.bought[token]++; c.bought[token] > 1 {
			c.s.Errorf("a token was handed out twice")
		}
	}
}

// picture returns a body of POST /solve with a picture of about the given size in bytes. Different
// names give different pictures.
func picture(name string, size int) string {
	pixel := []byte("\x89PNG\r\n\x1a\n" + name)
	return fmt.Sprintf(`{"type":"image","image":%q}`,
		base64.StdEncoding.EncodeToString(append(pixel, make([]byte, size)...)))
}

// checkLedger compares the ledger of the service with each figure of poold.
func (s *everyFault) checkLedger() {
	living := s.replicas[0]
	var f dayFigures
	totals, createTaskSold := s.service.Totals(), s.service.Sold()
	testkit.Within(s, 90*time.Second, "each order to be in the history", func() bool {
		f = dayFigures{}
		for _, of := range living.day() {
			f.add(of)
		}
		m := living.metrics()
		totals, createTaskSold = s.service.Totals(), s.service.Sold() // a slow run renews tokens meanwhile
		return m["poold_orders_in_flight"] == 0 && f.Orders-f.Refused == int(m["poold_bought_total"]) &&
			totals.InFlight == 0 && totals.Submitted == f.Orders-f.Refused
	})
	sold := sales(ledger(s, s.w.provider))
	s.Logf("sold %+v, recorded %+v", totals, f)
	for i, p := range s.replicas {
		// A page of /metrics lacks the figures of the guests while Redis does not answer in time.
		testkit.Within(s, 30*time.Second, fmt.Sprintf("replica %d to count each order", i), func() bool {
			return int(p.metrics()["poold_bought_total"]) == totals.Submitted
		})
		p.balance()
	}
	if f.Solved+f.Discarded != totals.Solved || f.Failed != totals.Failed || f.Lost != 0 || totals.InFlight != 0 {
		s.Error("the day and the ledger differ")
	}
	// There is one record for each task.
	cost, tasks := 0.0, map[string]bool{}
	outcomes := map[string]int{}
	for _, status := range []string{"solved", "error"} {
		for _, r := range living.records(status) {
			outcomes[r.Outcome]++
			cost += r.Price
			if r.Outcome == "refused" {
				continue
			}
			if r.Task == "" || tasks[r.Task] {
				s.Errorf("a record of no task, or of one that has another: %+v", r)
			}
			tasks[r.Task] = true
		}
	}
	small := 0
	for _, sale := range createTaskSold {
		if sale.Identity.Sitekey == smallKey && sale.Token != "" { // what fails costs nothing
			small++
		}
		if !tasks[sale.Task] {
			s.Errorf("a task without a record: %+v", sale)
		}
	}
	want := dayFigures{Solved: outcomes["solved"], Discarded: outcomes["discarded"], Failed: outcomes["failed"],
		Refused: outcomes["refused"], Lost: outcomes["lost"]}
	if want.Orders, want.Spent = len(tasks)+want.Refused, f.Spent; want != f {
		s.Errorf("the records say %+v, the day %+v", want, f)
	}
	// Each order that was solved costs 1.
	for of, spent := range map[string]float64{
		"day": f.Spent, "records": cost, "usage": living.usage(), "status": living.spent(),
	} {
		testkit.Equal(s, "spent by the "+of, spent, float64(totals.Solved))
	}
	// The tokens that the callers got and the tokens in stock are together exactly the tokens that
	// the service sold.
	m := living.metrics()
	// A replica that stops in the seconds after it answered store_down may not learn that Redis executed the take.
	got, unheard := len(s.callers.bought), s.callers.codes["503 store_down"]
	if n := int(m["poold_solved_total"] - m["poold_tokens_expired_total"] - m["poold_pool_tokens"]); n < got ||
		n > got+unheard {
		s.Errorf("%d tokens were handed out, the callers got %d", n, got)
	}
	testkit.Within(s, 30*time.Second, "the usage of the key to be the worth of its tokens", func() bool {
		var of struct {
			Lines []struct {
				Key   string
				Spent float64
			}
		}
		getJSON(s, living.URL+"/history/usage?by=key", living.key, &of)
		return len(of.Lines) == 1 && of.Lines[0].Key == "story" && of.Lines[0].Spent >= float64(got) &&
			of.Lines[0].Spent <= float64(got+unheard)
	})
	for _, tokens := range []map[string]int{s.callers.bought, s.callers.shared} {
		for token := range tokens {
			if _, ok := sold[hash(token)]; !ok {
				s.Error("a token that was not sold")
			}
			if s.callers.bought[token] == 0 {
				s.Error("a shared token that was handed out to no first caller")
			}
		}
	}
	testkit.Equal(s, "solves of the small budget", small, smallBudget)
	if totals.ByAction["poll"] == 0 || m[`poold_callbacks_total{outcome="settled"}`] == 0 {
		s.Error("the tokens came in one way only")
	}
}

func (f *dayFigures) add(o dayFigures) {
	f.Orders += o.Orders
	f.Solved += o.Solved
	f.Discarded += o.Discarded
	f.Failed += o.Failed
	f.Refused += o.Refused
	f.Lost += o.Lost
	f.Spent += o.Spent
}
