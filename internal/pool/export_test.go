package pool

import "testing"

// RightsSuite contains tests that use the rights in the docs.
var RightsSuite = map[string]func(*testing.T, Options){
	"Memory": testMemory, "ForeignKey": testForeignKey,
}

func init() {
	for _, name := range []string{
		"OrderLandsAndIsTaken", "LifeIsJudgedInTheScript", "IdempotencyKeyRepeatsTheToken", "ReturnHappensOnce",
		"RateIsAWindow", "OrdersRunOutAndPauseStopsThem", "SurveyNeedsNoLoadedScript",
		"WaitersAreServedInOrder", "LeasesAndAdoption", "ATaskHasOneOrder", "UnknownOrders",
		"SharedBudgetsHaveCaps", "ReportsCountOnce", "FlushDiscardsTheStock", "WindowsReplaceWindowsTheyCover",
		"WindowsReachAllReplicas", "JunkIsSetAside", "HeartbeatListsLiveReplicas", "ReplicasShareStatuses",
		"SurveyDelaysAdditionsToTheRow", "LateAdditionsToTheRowAreRefused", "RepeatedLandingsAndCallbacksEndAWait", "EachEndIsKept", "EndsAreLimited", "SweepFindsEndedOrders",
	} {
		RightsSuite[name] = suite[name]
	}
}
