package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/provider/simulated"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill/policy"
	"poold/internal/testkit"
)

// These are the largest accepted differences between a daemon and its simulation. In 60 simulations
// of these demands with different seeds, the standard deviation is 3.7 % for the waste and 0.6
// percentage points for the hit rate. A run is compared with the mean of ten simulations, which
// makes both deviations 1.05 times as large. A busy machine also delays solves: ten processes on
// two cores cost 4.2 percentage points of the hit rate.
const (
	mostHitsApart  = 0.06 // as a share of the requests
	mostWasteApart = 0.15 // as a share of the simulation's waste
)

// The comparison uses times that are a tenth of the usual times: tokens are usable for 8 s, and a
// solve takes 1.8 s. Each target has its own demand. A short run with many targets gives as much
// information as a long run with one target.
const (
	crowd       = 6
	crowdSeed   = 5                // seed of the first target's demand; this seed and the following seeds give a high demand
	crowdSlots  = 64               // number of the provider's threads for each target, more than needed
	crowdDemand = 70 * time.Second // length of the demand
	// crowdIdle is the value of idle_after, which ends the buying after the last request. Without
	// this limit the daemon and the simulation would continue to buy for one or two minutes,
	// because a further burst could come.
	crowdIdle = 15 * time.Second
	// number of simulations of each target; a simulation is cheap, but a run of the daemon is
	// expensive
	simulations = 10
)

// crowdProvider is the provider of the daemon and of the simulation. The daemon's provider draws
// different lead times in each run.
var crowdProvider = simulated.Options{
	Median: 1800 * time.Millisecond, Sigma: 0.45, Min: 600 * time.Millisecond, Max: 12 * time.Second,
	FailShare: 0.07, Ledger: true, LedgerHTTP: true, Flavour: simulated.TwoCaptcha,
}

// crowdFile is the configuration file of both the daemon, at the given address, and the simulation.
// Until a target knows real lead times, it expects the sum of first poll and interval as lead time,
// and scales its time constants accordingly. In this file the sum equals the provider's median. So
// the scale does not change, and nothing has to be learned again. The provider sends tokens by
// callbacks, so no token waits for the first poll.
func crowdFile(t *testing.T, provider, address string) string {
	t.Helper()
	const interval = 50 * time.Millisecond
	var text strings.Builder
	fmt.Fprintf(&text, `
redis: {url: "redis://%s", prefix: crowd}
providers:
  - {name: service, api: legacy, profile: 2captcha, url: "%s", key: 0123456789abcdef0123456789abcdef, concurrency: %d, timeout: 20s,
     first_poll: %v, poll_interval: %v, callback_url: "http://%s", callback_delay: 0s, fallback_after: 15s}
dead_letters: {dir: "%s"}
defaults: {owner: qa@example.com, refill: adaptive, depth: 200, lifetime: 10s, margin: 2s, idle_after: %v}
targets:
`, redistest.Server(t), provider, crowd*crowdSlots, crowdProvider.Median-interval, interval, address, t.TempDir(), crowdIdle)
	for i := range crowd {
		fmt.Fprintf(&text, "  %s: {type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: \"https://example.com/%d\"}\n", customerOf(i).target, i)
	}
	file := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, file, text.String())
	return file
}

// customer is a caller that requests tokens of one target.
type customer struct {
	target string
	seed   uint64
	asked  []float64 // times of the requests, in seconds from the start
	hits   atomic.Int64
}

func customerOf(i int) *customer {
	return &customer{target: fmt.Sprintf("crowd-%d", i), seed: uint64(crowdSeed + i)}
}

// drawTimes draws the times of the customer's requests: about 4 requests a second for 6 s on average,
// then no request for 8 s.
func (c *customer) drawTimes() (list []time.Duration) {
	const on, off, gap = 6 * time.Second, 8 * time.Second, 250 * time.Millisecond
	random := rand.New(rand.NewPCG(c.seed, 0))
	exp := func(mean time.Duration) time.Duration { return time.Duration(random.ExpFloat64() * float64(mean)) }
	for at := exp(off); at < crowdDemand; at += exp(off) {
		end := min(at+exp(on), crowdDemand)
		for at += exp(gap); at < end; at += exp(gap) {
			list = append(list, at)
		}
		at = end
	}
	return list
}

// sendAll sends each request at its time, even if earlier requests have no response yet. It returns
// when all requests have a response.
func (c *customer) sendAll(t *testing.T, p *process, client *http.Client, start time.Time) {
	var requests sync.WaitGroup
	defer requests.Wait()
	for _, at := range c.drawTimes() {
		time.Sleep(time.Until(start.Add(at)))
		c.asked = append(c.asked, time.Since(start).Seconds())
		requests.Go(func() {
			switch _, code, err := p.take(t.Context(), client, c.target, "?wait=0s"); {
			case code == http.StatusOK && err == nil:
				c.hits.Add(1)
			case code != http.StatusServiceUnavailable:
				t.Errorf("%s: %d, %v", c.target, code, err)
			}
		})
	}
}

// outcome has the figures of one target, or the sums over all targets.
type outcome struct{ requests, hits, expired, bought float64 }

func (o *outcome) add(other outcome) {
	o.requests += other.requests
	o.hits += other.hits
	o.expired += other.expired
	o.bought += other.bought
}

func (o *outcome) String() string {
	return fmt.Sprintf("%.0f requests, hits %.2f %%, waste %.4f a request, %.1f bought", o.requests, 100*o.hits/o.requests, o.expired/o.requests, o.bought)
}

// simulate returns the mean outcome of `poold simulate` for the requests that the customer sent.
func (c *customer) simulate(t *testing.T, file string) (mean outcome) {
	t.Helper()
	var lines strings.Builder
	for _, at := range c.asked {
		fmt.Fprintf(&lines, "%.4f\n", at)
	}
	trace := filepath.Join(t.TempDir(), c.target)
	writeFile(t, trace, lines.String())
	o := crowdProvider
	for run := range simulations {
		// Lifetime, margin, depth and idle_after are in the file.
		code, text, problems := simulateWith(t, "--config", file, "--target", c.target, "--trace", trace, "--json",
			"--lead", fmt.Sprintf("lognormal:%v,%v,%v,%v", o.Median, o.Sigma, o.Min, o.Max), "--fail", fmt.Sprint(o.FailShare),
			"--concurrency", strconv.Itoa(crowdSlots), "--seed", strconv.FormatUint(c.seed*simulations+uint64(run), 10))
		if code != exitDone {
			t.Fatalf("simulating %s: exit %d: %s", c.target, code, problems)
		}
		var r policy.Result
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		mean.add(outcome{
			float64(r.Requests) / simulations, float64(r.Hits) / simulations, float64(r.Expired) / simulations, float64(r.Bought) / simulations,
		})
	}
	return mean
}

// The real daemon, with a real Redis and a provider in another process, reaches the hits and the
// waste that `poold simulate` predicts for the same requests.
func TestTheDaemonDoesAsSimulated(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	address := redistest.FreeAddress(t)
	provider := startProvider(t, crowdProvider)
	file := crowdFile(t, provider, address)
	p := startAt(t, address, shipped, file, "")

	customers := make([]*customer, crowd)
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * crowd}
	defer transport.CloseIdleConnections()
	var demand sync.WaitGroup
	start := time.Now()
	for i := range customers {
		customers[i] = customerOf(i)
		demand.Go(func() { customers[i].sendAll(t, p, &http.Client{Transport: checking(transport)}, start) })
	}
	demand.Wait()
	last := time.Now()

	// The simulation runs while the remaining stock expires.
	var foretold, real outcome
	single := make([]outcome, crowd)
	for i, c := range customers {
		single[i] = c.simulate(t, file)
		foretold.add(single[i])
	}
	simulatedIn := time.Since(last)
	for i, c := range customers {
		o := p.waitForEnd(c, last)
		t.Logf("%s: %v; simulated: %v", c.target, &o, &single[i])
		real.add(o)
	}
	if bought, sold := p.balance(), ledger(t, provider).Totals.Submitted; bought != sold {
		t.Errorf("poold counts %d bought, the provider sold %d", bought, sold)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	hits, waste := (real.hits-foretold.hits)/real.requests, real.expired/foretold.expired-1
	t.Logf("the daemon: %v; simulated: %v; apart: hits %+.2f points, waste %+.1f %% (%v, of them %v simulating)",
		&real, &foretold, 100*hits, 100*waste, time.Since(start).Round(time.Second), simulatedIn.Round(time.Second))
	if real.requests < 900 {
		t.Errorf("%.0f requests were made, which says little", real.requests)
	}
	if math.Abs(hits) > mostHitsApart || math.Abs(waste) > mostWasteApart {
		t.Errorf("the daemon does not do as simulated: hits %+.2f points, waste %+.1f %%", 100*hits, 100*waste)
	}
}

// waitForEnd waits until the customer's target buys nothing and has no tokens left, and returns the
// outcome of this target.
func (p *process) waitForEnd(c *customer, last time.Time) outcome {
	p.t.Helper()
	var s targetStatus
	testkit.Within(p.t, time.Minute, c.target+" to hold nothing", func() bool {
		s = p.target(c.target)
		return time.Since(last) > crowdIdle && s.Fresh == 0 && s.InFlight == 0
	})
	// The simulation cannot model requests that were not counted, or tokens that were returned or
	// lost.
	if int(s.Requests) != len(c.asked) || s.Hits != c.hits.Load() || s.Returned+s.Lost > 0 {
		p.t.Errorf("%s: %d requests were sent and %d got a token: %+v", c.target, len(c.asked), c.hits.Load(), s)
	}
	return outcome{float64(s.Requests), float64(s.Hits), float64(s.Expired), float64(s.Solved)}
}
