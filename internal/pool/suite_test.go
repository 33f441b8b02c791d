package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// Every kind of Redis server must pass this suite.
var suite = map[string]func(*testing.T, Options){
	"OrderLandsAndIsTaken":                      testOrderLandsAndIsTaken,
	"LifeIsJudgedInTheScript":                   testLifeIsJudgedInTheScript,
	"IdempotencyKeyRepeatsTheToken":             testIdempotencyKeyRepeatsTheToken,
	"LateAndLostOrdersSpendTheirPrice":          testLateAndLostOrdersSpendTheirPrice,
	"ReturnHappensOnce":                         testReturnHappensOnce,
	"RepeatReturnsTheTokenOfAKey":               testRepeatReturnsTheTokenOfAKey,
	"RateIsAWindow":                             testRateIsAWindow,
	"AttemptsAreBounded":                        testAttemptsAreBounded,
	"OrdersRunOutAndPauseStopsThem":             testOrdersRunOutAndPauseStopsThem,
	"SurveyNeedsNoLoadedScript":                 testSurveyNeedsNoLoadedScript,
	"WaitersAreServedInOrder":                   testWaitersAreServedInOrder,
	"TheQueueIsLimited":                         testTheQueueIsLimited,
	"TicketsOfDeadReplicasAreSkipped":           testTicketsOfDeadReplicasAreSkipped,
	"ARateDoesNotStarveTickets":                 testARateDoesNotStarveTickets,
	"RateErrorsDifferFromEmptyErrors":           testRateErrorsDifferFromEmptyErrors,
	"EndWaitsEndsWaits":                         testEndWaitsEndsWaits,
	"HangUpsLoseNoToken":                        testHangUpsLoseNoToken,
	"TakesSurviveLostReplies":                   testTakesSurviveLostReplies,
	"LeasesAndAdoption":                         testLeasesAndAdoption,
	"FindAllReadsManyOrders":                    testFindAllReadsManyOrders,
	"ALostLeaseIsFenced":                        testALostLeaseIsFenced,
	"ATaskHasOneOrder":                          testATaskHasOneOrder,
	"UnknownOrders":                             testUnknownOrders,
	"CallbacksNeedNoLease":                      testCallbacksNeedNoLease,
	"BudgetsSlide":                              testBudgetsSlide,
	"SharedBudgetsHaveCaps":                     testSharedBudgetsHaveCaps,
	"ReportsCountOnce":                          testReportsCountOnce,
	"FlushDiscardsTheStock":                     testFlushDiscardsTheStock,
	"TheLedgerBalances":                         testTheLedgerBalances,
	"EndingsSurviveLostReplies":                 testEndingsSurviveLostReplies,
	"LateStepsDoNothing":                        testLateStepsDoNothing,
	"OverEndsAWait":                             testOverEndsAWait,
	"CallersOfOneKeyShareATicket":               testCallersOfOneKeyShareATicket,
	"SharedTicketsLastUntilTheLastCallerLeaves": testSharedTicketsLastUntilTheLastCallerLeaves,
	"SharedTicketsOutliveADeadReplica":          testSharedTicketsOutliveADeadReplica,
	"HeartbeatListsLiveReplicas":                testHeartbeatListsLiveReplicas,
	"ReplicasShareStatuses":                     testReplicasShareStatuses,
	"RepeatedTextsLandOnce":                     testRepeatedTextsLandOnce,
	"FailedOrdersEndOneWait":                    testFailedOrdersEndOneWait,
	"RepeatedLandingsAndCallbacksEndAWait":      testRepeatedLandingsAndCallbacksEndAWait,
	"FailuresSurviveLostReplies":                testFailuresSurviveLostReplies,
	"TokenTextsAreUnchanged":                    testTokenTextsAreUnchanged,
	"SharedTokensAreReportedOnce":               testSharedTokensAreReportedOnce,
	"ReplicasShareGuests":                       testReplicasShareGuests,
	"GuestsAreRetired":                          testGuestsAreRetired,
	"MissingScriptKeepsErrors":                  testMissingScriptKeepsErrors,
	"SurveyDelaysAdditionsToTheRow":             testSurveyDelaysAdditionsToTheRow,
	"LateAdditionsToTheRowAreRefused":           testLateAdditionsToTheRowAreRefused,
	"RetireSurvivesKills":                       testRetireSurvivesKills,
	"EachEndIsKept":                             testEachEndIsKept,
	"EndsAreLimited":                            testEndsAreLimited,
	"SweepFindsEndedOrders":                     testSweepFindsEndedOrders,
	"RetriedEndsLeaveOneLine":                   testRetriedEndsLeaveOneLine,
	"EachRequestCountsOnce":                     testEachRequestCountsOnce,
}

// reached lists the tests of the suite that depend on the connection to the server: tests of broken
// or closed connections, of messages, of pipelines and of missing scripts.
var reached = []string{
	"OrderLandsAndIsTaken", "SurveyNeedsNoLoadedScript", "WaitersAreServedInOrder", "EndWaitsEndsWaits", "HangUpsLoseNoToken",
	"TakesSurviveLostReplies", "EndingsSurviveLostReplies", "FailuresSurviveLostReplies", "HeartbeatListsLiveReplicas",
	"RepeatedLandingsAndCallbacksEndAWait", "ReplicasShareGuests", "SweepFindsEndedOrders",
}

// TestOnEveryServer runs the suite on every kind of server.
func TestOnEveryServer(t *testing.T) {
	tests := map[string]func(*testing.T, redistest.Place){}
	for name, test := range suite {
		tests[name] = func(t *testing.T, p redistest.Place) {
			test(t, at(p))
		}
	}
	redistest.OnEvery(t, tests, reached)
}

func at(p redistest.Place) Options {
	return Options{Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial}
}

// replica is a store with the methods of all its parts.
type replica struct {
	*client
	*Store
	*Tokens
	*Orders
	*Controls
	*Replicas
}

func openStore(o Options) (*replica, error) {
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &replica{s.notify.client, s, s.Tokens, s.Orders, s.Controls, s.Replicas}, nil
}

// open opens a store with the prefix of the test. The store runs until the test ends.
func open(t testing.TB, o Options) *replica {
	t.Helper()
	return openLogged(t, o, slog.New(slog.DiscardHandler))
}

func openLogged(t testing.TB, o Options, log *slog.Logger) *replica {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = "test-" + t.Name()
	}
	o.Log = log
	s, err := openStore(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// must(t, err) ends the test if a step of the set-up returned an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect returns a function that ends the test unless a call succeeds with the given result.
func expect[T comparable](t testing.TB, result T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != result {
			t.Fatalf("got %v, %v; want %v", got, err, result)
		}
	}
}

func identity(name string) captcha.ID {
	return captcha.Identity{Type: captcha.Turnstile, Sitekey: name}.ID()
}

var stocked atomic.Int64 // number of the last order that the function stock placed

// stock adds n tokens of the given age and lifetime to the stock.
func stock(t testing.TB, s *replica, id captcha.ID, n int, age, lifetime time.Duration) []string {
	t.Helper()
	var values []string
	for i := range n {
		order := fmt.Sprintf("order%dx%dx%d", age, i, stocked.Add(1))
		values = append(values, "token|of "+order)
		place(t, s, id, order)
		land(t, s, id, order, age, lifetime)
	}
	return values
}

// place places an order and fails if Place refuses it.
func place(t testing.TB, s *replica, id captcha.ID, order string) {
	t.Helper()
	placeOrder(t, s, Order{Ref: Ref{id, order}, Depth: 1 << 20, TTL: time.Minute})
}

func placeOrder(t testing.TB, s *replica, o Order) {
	t.Helper()
	if got, err := s.Place(t.Context(), o); err != nil || !got.Placed {
		t.Fatalf("placing %s: %+v, %v", o.Order, got, err)
	}
}

func land(t testing.TB, s *replica, id captcha.ID, order string, age, lifetime time.Duration) {
	t.Helper()
	how, err := s.Settle(t.Context(), Landing{
		Ref: Ref{id, order}, Provider: "p", Value: "token|of " + order,
		UserAgent: "agent | 1", SincePlaced: -age, Lifetime: lifetime, Lead: 2 * time.Second,
	})
	if err != nil || how != Ended {
		t.Fatalf("settling %s: %v, %v", order, how, err)
	}
}

func look(t testing.TB, s *replica, id captcha.ID) Stock {
	t.Helper()
	stock, err := s.Look(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return stock
}

// giveBack returns a token and waits until the token is in the stock.
func giveBack(t testing.TB, s *replica, token Token) {
	t.Helper()
	must(t, s.Return(token))
	putBack(t, s)
}

// putBack waits until all returned tokens are in the stock. In a bubble, no time passes meanwhile.
func putBack(t testing.TB, s *replica) {
	t.Helper()
	for began := time.Now(); s.returning() > 0; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a token is not put back within 10 s")
		}
	}
}

func (s *replica) returning() int {
	s.returns.mu.Lock()
	defer s.returns.mu.Unlock()
	return len(s.returns.pending)
}

func isEmpty(err error) bool {
	var empty *EmptyError
	return errors.As(err, &empty)
}

// thiefOfTakes returns a Thief that steals a fifth of the replies to take.lua.
func thiefOfTakes(s *replica) *redistest.Thief {
	return redistest.NewThief(0.2, s.script("take").Hash())
}
