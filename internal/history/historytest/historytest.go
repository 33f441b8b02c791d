// Package historytest is what every history.Store and history.Audit must pass. Only tests import it.
//
// A test opens stores that are empty, writes the same records to them and to a model, and compares what both answer.
// It stays within what each store keeps: records of the last days, at most 50 of a sitekey and 1,000 of a status.
package historytest

import (
	"context"
	"testing"

	"poold/internal/history"
)

// Open opens one store that is empty, as several replicas have it: one or more, over the same data. They end with the
// test, of which rapid makes a hundred out of one. Those that were opened before are used no more.
type Open func(t testing.TB) []history.Store

// Suite is the suite of a Store. Each test may run in a separate bubble.
var Suite = map[string]func(*testing.T, Open){
	"ARecordComesBackWhole":   testARecordComesBackWhole,
	"ARecordIsKeptOnce":       testARecordIsKeptOnce,
	"ABatchMayBeEmpty":        testABatchMayBeEmpty,
	"ManyWriteTheSame":        testManyWriteTheSame,
	"ManyWriteAtOnce":         testManyWriteAtOnce,
	"AWriteIsCutOff":          testAWriteIsCutOff,
	"OneMillisecond":          testOneMillisecond,
	"SitekeysAreApart":        testSitekeysAreApart,
	"StatusesAreApart":        testStatusesAreApart,
	"AnUnknownStatus":         testAnUnknownStatus,
	"PagesFollowEachOther":    testPagesFollowEachOther,
	"TheLongestPage":          testTheLongestPage,
	"NewRecordsBetweenPages":  testNewRecordsBetweenPages,
	"FromAndTo":               testFromAndTo,
	"TargetsThatMayBeSeen":    testTargetsThatMayBeSeen,
	"ADaysFigures":            testADaysFigures,
	"ADayEndsAtMidnight":      testADayEndsAtMidnight,
	"OwnersAreApart":          testOwnersAreApart,
	"NobodyKnowsTheSolve":     testNobodyKnowsTheSolve,
	"ARecordIsFoundByItsTask": testARecordIsFoundByItsTask,
	"WhoAskedHasGone":         testWhoAskedHasGone,
	"AnythingThatMayBeAsked":  testAnythingThatMayBeAsked,
}

// Test runs the suite.
func Test(t *testing.T, open Open) {
	for name, test := range Suite {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// tester is a *testing.T, or rapid's.
type tester interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}
