package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/pool/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	// Where a server was killed, go-redis tries to dial it for a second after Close.
	dials := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	goleak.VerifyTestMain(m, dials, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(certificateDir)
		os.Exit(code)
	}))
}

// silence keeps go-redis from telling of every dial that a test makes fail.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// server is one way of running Redis on which every script must behave alike.
type server struct {
	name    string
	known   bool // scripts run there as on another one: only how it is reached is its own
	options func(t testing.TB) Options
}

func servers() []server {
	all := []server{
		{"single", false, func(t testing.TB) Options {
			return Options{Addresses: "redis://" + redistest.Server(t)}
		}},
		{"cluster", false, func(t testing.TB) Options {
			return Options{Addresses: "redis://" + strings.Join(redistest.Cluster(t), ",redis://")}
		}},
		{"sentinel", true, func(t testing.TB) Options {
			return Options{
				Addresses:      "redis://" + strings.Join(redistest.Sentinel(t), ",redis://"),
				SentinelMaster: redistest.MasterName,
			}
		}},
		{"embedded", true, func(t testing.TB) Options {
			return Options{Addresses: "redis://" + miniredis.RunT(t).Addr()}
		}},
	}
	if testkit.RaceEnabled {
		return all[:1] // our own code is the same with each of them
	}
	return all
}

// suite is what every kind of server must pass.
var suite = map[string]func(*testing.T, Options){
	"OrderLandsAndIsTaken":               testOrderLandsAndIsTaken,
	"LifeIsJudgedInTheScript":            testLifeIsJudgedInTheScript,
	"IdempotencyKeyRepeatsTheToken":      testIdempotencyKeyRepeatsTheToken,
	"WhatAFailedOrderCosts":              testWhatAFailedOrderCosts,
	"ReturnHappensOnce":                  testReturnHappensOnce,
	"ATaskOfAClient":                     testATaskOfAClient,
	"WhatAKeyGot":                        testRepeat,
	"RateIsAWindow":                      testRateIsAWindow,
	"PermitsAtAProvider":                 testPermitsAtAProvider,
	"AttemptsAreBounded":                 testAttemptsAreBounded,
	"Standings":                          testStandings,
	"OrdersRunOutAndPauseStopsThem":      testOrdersRunOutAndPauseStopsThem,
	"SurveyNeedsNoLoadedScript":          testSurveyNeedsNoLoadedScript,
	"WaitersAreServedInOrder":            testWaitersAreServedInOrder,
	"TheQueueHasAnEnd":                   testTheQueueHasAnEnd,
	"ADeadReplicasTicketIsSkipped":       testADeadReplicasTicketIsSkipped,
	"ARateDoesNotStarveTickets":          testARateDoesNotStarveTickets,
	"RateAndEmptinessAreToldApart":       testRateAndEmptinessAreToldApart,
	"SendAwayEndsWaits":                  testSendAwayEndsWaits,
	"HangingUpLosesNothing":              testHangingUpLosesNothing,
	"LostRepliesLoseNoToken":             testLostRepliesLoseNoToken,
	"LeasesAndAdoption":                  testLeasesAndAdoption,
	"ManyOrdersAreRead":                  testManyOrdersAreRead,
	"ALostLeaseIsFenced":                 testALostLeaseIsFenced,
	"ATaskHasOneOrder":                   testATaskHasOneOrder,
	"UnknownOrders":                      testUnknownOrders,
	"CallbacksNeedNoLease":               testCallbacksNeedNoLease,
	"BudgetsSlide":                       testBudgetsSlide,
	"TheBudgetOverAllTargets":            testTheBudgetOverAllTargets,
	"TheBudgetOfGuests":                  testTheBudgetOfGuests,
	"Reports":                            testReports,
	"FlushThrowsAway":                    testFlushThrowsAway,
	"TheLedgerBalances":                  testTheLedgerBalances,
	"LostRepliesOfEndings":               testLostRepliesOfEndings,
	"LateStepsDoNothing":                 testLateStepsDoNothing,
	"WindowsAreToldUntilTheyAreOver":     testWindowsAreToldUntilTheyAreOver,
	"WindowsThatCoverOthers":             testWindowsThatCoverOthers,
	"NoMoreWindowsThanAHundred":          testNoMoreWindowsThanAHundred,
	"WindowsOfACallerWithALimit":         testWindowsOfACallerWithALimit,
	"AWindowIsToldToAllReplicas":         testAWindowIsToldToAllReplicas,
	"ACallMadeAgainLeavesOneWindow":      testACallMadeAgainLeavesOneWindow,
	"AWaitThatIsOver":                    testAWaitThatIsOver,
	"CallersOfOneKeyHoldOneTicket":       testCallersOfOneKeyHoldOneTicket,
	"ASharedTicketGoesWithItsLastCaller": testASharedTicketGoesWithItsLastCaller,
	"ADeadReplicaLeavesASharedTicket":    testADeadReplicaLeavesASharedTicket,
	"TheFirstOfAKeyHangsUp":              testTheFirstOfAKeyHangsUp,
	"JunkIsSetAside":                     testJunkIsSetAside,
	"JunkAmongManyImmediateTakes":        testJunkAmongManyImmediateTakes,
	"JunkIsBounded":                      testJunkIsBounded,
	"JunkInTheJournal":                   testJunkInTheJournal,
	"ForeignTypes":                       testForeignTypes,
	"ReplicasKnowEachOther":              testReplicasKnowEachOther,
	"ReplicasShareWhatTheySay":           testReplicasShareWhatTheySay,
	"ATextSoldTwiceLandsOnce":            testATextSoldTwiceLandsOnce,
	"AFailedOrderAnswersOneCaller":       testAFailedOrderAnswersOneCaller,
	"WhoLacksAFailedOrder":               testWhoLacksAFailedOrder,
	"HoldersOfOneTicketAreTold":          testHoldersOfOneTicketAreTold,
	"EveryFailureIsTold":                 testEveryFailureIsTold,
	"LostRepliesOfFailures":              testLostRepliesOfFailures,
	"AClaim":                             testAClaim,
	"KeysOfClaims":                       testKeysOfClaims,
	"ForeignTypesOfClaims":               testForeignTypesOfClaims,
	"LostRepliesOfClaims":                testLostRepliesOfClaims,
	"TextsStayAsTheyAre":                 testTextsStayAsTheyAre,
	"SharedTokensAreReportedOnce":        testSharedTokensAreReportedOnce,
	"GuestsAreKnownToAll":                testGuestsAreKnownToAll,
	"GuestsAreRetired":                   testGuestsAreRetired,
	"AForgottenScriptRunsOnce":           testAForgottenScriptRunsOnce,
	"AForgottenScriptSaysWhatFails":      testAForgottenScriptSaysWhatFails,
	"AGuestThatBecameATarget":            testAGuestThatBecameATarget,
	"AHandOverIsCutAnywhere":             testAHandOverIsCutAnywhere,
	"AHandOverAfterAnEnd":                testAHandOverAfterAnEnd,
	"AGuestsEndIsCutAnywhere":            testAGuestsEndIsCutAnywhere,
	"ALateFoldIsRefused":                 testALateFoldIsRefused,
	"ALateForgetTakesNothingElse":        testALateForgetTakesNothingElse,
	"ASurveyHoldsFoldsUp":                testASurveyHoldsFoldsUp,
	"EachEndIsKept":                      testEachEndIsKept,
	"EndsThatAreTooMany":                 testEndsThatAreTooMany,
	"EndsAreFound":                       testEndsAreFound,
	"AnEndSentAgainIsOne":                testAnEndSentAgainIsOne,
	"EachRequestIsTold":                  testEachRequestIsTold,
	"ArrivalsAreKept":                    testArrivalsAreKept,
}

// reached are those of the suite that depend on how a server is reached: on connections that
// break or are closed, on what is told over them, on pipelines, and on scripts that the server
// does not know yet.
var reached = []string{
	"OrderLandsAndIsTaken", "SurveyNeedsNoLoadedScript", "WaitersAreServedInOrder", "SendAwayEndsWaits", "HangingUpLosesNothing",
	"LostRepliesLoseNoToken", "LostRepliesOfEndings", "LostRepliesOfFailures", "AWindowIsToldToAllReplicas", "ReplicasKnowEachOther",
	"HoldersOfOneTicketAreTold", "EveryFailureIsTold", "GuestsAreKnownToAll", "AClaim", "EndsAreFound", "ArrivalsAreKept",
}

// TestOnEveryServer runs the suite on every kind of server: the whole one on a single server, on
// a cluster and, in bubbles, on the embedded server; elsewhere what depends on how it is reached.
func TestOnEveryServer(t *testing.T) {
	t.Run("bubble", func(t *testing.T) {
		testkit.WithoutRace(t)
		for name, test := range suite {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					redis := redistest.InBubble(t)
					test(t, Options{Addresses: "redis://bubble", Dial: redis.Dial})
				})
			})
		}
	})
	for _, server := range servers() {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			options := server.options(t)
			names := slices.Collect(maps.Keys(suite))
			if server.known {
				names = reached
			}
			for _, name := range names {
				t.Run(name, func(t *testing.T) { suite[name](t, options) })
			}
		})
	}
}

// replica is a store and its parts, with the methods of all of them.
type replica struct {
	*client
	*Store
	*Tokens
	*Orders
	*Standings
	*Controls
	*Replicas
}

// openStore is Open for tests.
func openStore(o Options) (*replica, error) {
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &replica{s.client, s, s.Tokens, s.Orders, s.Standings, s.Controls, s.Replicas}, nil
}

// open makes a store with a prefix of its own that runs until the test ends.
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

func identity(name string) captcha.ID {
	return captcha.Identity{Type: captcha.Turnstile, Sitekey: name}.ID()
}

var stocked atomic.Int64 // numbers the orders of stock

// stock lands n tokens of the given age and lifetime.
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

func place(t testing.TB, s *replica, id captcha.ID, order string) {
	t.Helper()
	got, err := s.Place(t.Context(), Order{Ref: Ref{id, order}, Depth: 1 << 20, TTL: time.Minute})
	if err != nil || !got.Placed {
		t.Fatalf("placing %s: %+v, %v", order, got, err)
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

// giveBack returns a token and waits until it is in the stock.
func giveBack(t testing.TB, s *replica, token Token) {
	t.Helper()
	if err := s.Return(token); err != nil {
		t.Fatal(err)
	}
	putBack(t, s)
}

// putBack waits until all that was returned is in the stock. In a bubble no time
// passes meanwhile.
func putBack(t testing.TB, s *replica) {
	t.Helper()
	for began := time.Now(); s.returning() > 0; runtime.Gosched() {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a token is not put back within 10 s")
		}
	}
}

// returning is of how many identities tokens wait to be put back.
func (s *replica) returning() int {
	s.returns.mu.Lock()
	defer s.returns.mu.Unlock()
	return len(s.returns.pending)
}

func isEmpty(err error) bool {
	var empty *EmptyError
	return errors.As(err, &empty)
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("%s: not within 10 s", what)
}

// thiefOfTakes steals a fifth of the replies to take.lua.
func thiefOfTakes(s *replica) *redistest.Thief {
	return redistest.NewThief(0.2, s.script("take").Hash())
}
