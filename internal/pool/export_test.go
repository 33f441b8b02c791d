package pool

import "testing"

// RightsSuite contains the tests that run as a Redis user with only the rights that the docs list.
var RightsSuite = map[string]func(*testing.T, Options){
	"Memory": testMemory,
}

func init() {
	for _, name := range []string{
		"OrderLandsAndIsTaken", "LifeIsJudgedInTheScript", "IdempotencyKeyRepeatsTheToken", "ReturnHappensOnce",
		"RateIsAWindow", "OrdersRunOutAndPauseStopsThem", "SurveyNeedsNoLoadedScript",
		"WaitersAreServedInOrder", "LeasesAndAdoption", "ATaskHasOneOrder", "UnknownOrders",
		"SharedBudgetsHaveCaps", "ReportsCountOnce", "FlushDiscardsTheStock",
		"HeartbeatListsLiveReplicas", "ReplicasShareStatuses",
		"RepeatedLandingsAndCallbacksEndAWait", "EachEndIsKept", "EndsAreLimited", "SweepFindsEndedOrders",
	} {
		RightsSuite[name] = suite[name]
	}
}
