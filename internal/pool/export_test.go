package pool

import "testing"

// RightsSuite is what the pool does with the rights that the docs name.
var RightsSuite = map[string]func(*testing.T, Options){
	"Memory": testMemory, "ForeignKey": testForeignKey,
}

func init() {
	for _, name := range []string{
		"OrderLandsAndIsTaken", "LifeIsJudgedInTheScript", "IdempotencyKeyRepeatsTheToken", "ReturnHappensOnce",
		"RateIsAWindow", "OrdersRunOutAndPauseStopsThem", "SurveyNeedsNoLoadedScript",
		"WaitersAreServedInOrder", "LeasesAndAdoption", "ATaskHasOneOrder", "UnknownOrders",
		"TheBudgetOfGuests", "Reports", "FlushThrowsAway", "WindowsThatCoverOthers",
		"AWindowIsToldToAllReplicas", "JunkIsSetAside", "ReplicasKnowEachOther", "ReplicasShareWhatTheySay",
		"ASurveyHoldsFoldsUp", "ALateFoldIsRefused", "EveryFailureIsTold", "EachEndIsKept", "EndsThatAreTooMany", "EndsAreFound",
	} {
		RightsSuite[name] = suite[name]
	}
}
