package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/history/dynamotest"
	"poold/internal/testkit"
)

// storeFaults lists the faults that the store of the history can have.
var storeFaults = []struct {
	name string
	fate dynamotest.Fate // fate of each call
}{
	{"dead", dynamotest.Fate{Before: true}},
	{"slow", dynamotest.Fate{Delay: 3 * time.Second}},
	{"throttling", dynamotest.Fate{Answer: "ThrottlingException"}},
}

// shakyStore is a DynamoDB emulator behind a proxy that decides the fate of each call.
type shakyStore struct {
	emulator *dynamotest.Server
	proxy    *dynamotest.Proxy
	fate     atomic.Pointer[dynamotest.Fate] // nil = the store has no fault
	calls    atomic.Int64                    // number of calls with this fate
}

func newShakyStore(t testing.TB) *shakyStore {
	t.Helper()
	s := &shakyStore{emulator: dynamotest.Start(t)}
	s.proxy = dynamotest.Through(t, s.emulator, func(string, []byte) dynamotest.Fate {
		if fate := s.fate.Load(); fate != nil {
			s.calls.Add(1)
			return *fate
		}
		return dynamotest.Fate{}
	})
	return s
}

// setFate sets the fate of all later calls. After setFate(nil) the store works again.
func (s *shakyStore) setFate(fate *dynamotest.Fate) {
	s.calls.Store(0)
	s.fate.Store(fate)
}

// side is a daemon with its own Redis and provider, and records the times of its hand-outs.
type side struct {
	w *world
	p *process

	mu   sync.Mutex
	took []time.Duration
}

// newSide starts a side whose history is in a DynamoDB table.
func newSide(t testing.TB, table, endpoint string) *side {
	t.Helper()
	o := quick()
	o.FailShare = 0.1
	w := newWorld(t, o, terms{
		depth: 60, pace: "first_poll: 600ms, poll_interval: 300ms", provider: ", concurrency: 200",
		top: fmt.Sprintf("\nhistory: {backend: dynamodb, table: %s, endpoint: %q}", table, endpoint),
	})
	credentials := []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=" + dynamotest.Secret}
	w.initHistory(t, credentials)
	return &side{w: w, p: w.start(t, credentials...)}
}

type historyStatus struct {
	OK         bool
	Unrecorded int
}

func (p *process) historyStatus() historyStatus {
	p.t.Helper()
	var document struct{ History historyStatus }
	getJSON(p.t, p.url+"/status.json", p.key, &document)
	return document.History
}

// waitForRecords waits until each ended order is in the history or is counted as not recorded. It
// returns both numbers.
func (s *side) waitForRecords(t testing.TB) (recorded, unrecorded int) {
	t.Helper()
	s.w.atRest(t, s.p, time.Minute)
	bought := s.p.balance()
	defer func() {
		if t.Failed() {
			t.Logf("%d recorded and %d not, of %d", recorded, unrecorded, bought)
		}
	}()
	testkit.Within(t, 2*time.Minute, "each order to be accounted for", func() bool {
		recorded, unrecorded = 0, s.p.historyStatus().Unrecorded
		for _, f := range s.p.day() {
			recorded += f.Orders
		}
		return recorded+unrecorded == bought
	})
	return recorded, unrecorded
}

// ask runs concurrent callers that each request one token after another, with pauses. It returns when
// ctx ends or the maximum number of tokens was handed out.
func (s *side) ask(ctx context.Context, callers int, pause time.Duration, maximum int) {
	client := &http.Client{Transport: checking(&http.Transport{MaxIdleConnsPerHost: callers})}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil && s.count() < maximum {
				began := time.Now()
				_, code, err := s.p.take(context.WithoutCancel(ctx), client, "login", "?wait=20s")
				if err != nil || code != http.StatusOK {
					s.p.t.Errorf("a hand-out: %d, %v", code, err)
					return
				}
				s.mu.Lock()
				s.took = append(s.took, time.Since(began))
				s.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	group.Wait()
}

func (s *side) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.took)
}

// quantile returns a quantile of the times of the hand-outs, in ms.
func (s *side) quantile(share float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	return s.took[int(share*float64(len(s.took)-1))].Seconds() * 1000
}

// While the store is dead, slow or throttling, no hand-out and no order is delayed. In the end the
// store has a record of each order. bench/outage measures the same for longer, and compares it with
// a daemon whose store works.
func TestTheStoreIsAway(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const each = 40
	store := newShakyStore(t)
	s := newSide(t, "Away", store.proxy.URL)
	for i, fault := range storeFaults {
		store.setFate(&fault.fate)
		s.ask(t.Context(), 10, 0, (i+1)*each)
		testkit.Within(t, 30*time.Second, "a call to meet a "+fault.name+" store", func() bool { return store.calls.Load() > 0 })
		if fault.name == "dead" {
			testkit.Within(t, 20*time.Second, "the status to tell", func() bool { return !s.p.historyStatus().OK })
		}
	}
	store.setFate(nil)
	if recorded, unrecorded := s.waitForRecords(t); recorded < len(storeFaults)*each || unrecorded > 0 {
		t.Errorf("%d orders are recorded, %d are not", recorded, unrecorded)
	}
	testkit.Within(t, 20*time.Second, "the status to be well again", func() bool { return s.p.historyStatus().OK })
}

// BenchmarkTheStoreIsAway runs two daemons side by side. The store of one daemon is dead,
// throttling, or needs a second for each operation. Later this store recovers. In the end, each
// order must be recorded, or counted as dropped because of a limit.
func BenchmarkTheStoreIsAway(b *testing.B) {
	for _, fault := range storeFaults {
		b.Run(fault.name, func(b *testing.B) {
			store := newShakyStore(b)
			well, away := newSide(b, "Well", store.emulator.URL), newSide(b, "Away", store.proxy.URL)
			for _, s := range []*side{well, away} {
				s.w.atRest(b, s.p, time.Minute)
			}
			store.setFate(&fault.fate)
			sideBySide(b, well, away)
			if told := !away.p.historyStatus().OK; told != (fault.name != "slow") && b.N > 30 {
				b.Errorf("the status tells of a store that is away: %v", told)
			}
			store.setFate(nil)
			healed := time.Now()
			recorded, unrecorded := away.waitForRecords(b)
			b.ReportMetric(time.Since(healed).Seconds(), "healed-s")
			b.ReportMetric(float64(recorded), "recorded")
			b.ReportMetric(float64(unrecorded), "unrecorded")
			b.ReportMetric(0, "ns/op")
			if recorded, unrecorded := well.waitForRecords(b); unrecorded > 0 {
				b.Errorf("a store that is well has %d orders, and lacks %d", recorded, unrecorded)
			}
		})
	}
}

// sideBySide makes both daemons hand out tokens at the same time and reports the results.
func sideBySide(b *testing.B, well, away *side) {
	b.Helper()
	ctx, end := context.WithTimeout(b.Context(), time.Duration(b.N)*time.Second)
	defer end()
	var both sync.WaitGroup
	var orders [2]float64 // orders a second
	for i, s := range []*side{well, away} {
		both.Go(func() {
			bought, began := s.p.metrics()["poold_bought_total"], time.Now()
			s.ask(ctx, 4, 100*time.Millisecond, math.MaxInt)
			orders[i] = (s.p.metrics()["poold_bought_total"] - bought) / time.Since(began).Seconds()
		})
	}
	both.Wait()
	for i, s := range []*side{well, away} {
		name := []string{"well", "away"}[i]
		b.ReportMetric(s.quantile(0.50), name+"-p50-ms")
		b.ReportMetric(s.quantile(0.99), name+"-p99-ms")
		b.ReportMetric(orders[i], name+"-orders/s")
	}
}
