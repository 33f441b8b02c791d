// Package historytest contains the suites that every history.Store and history.Audit must pass. Only
// tests import it.
//
// A test opens empty stores, writes the same records to the stores and to a model, and compares the
// results. A test stays within the limits of every store: it uses records of the last days, at most
// 50 of them with the same sitekey and 1,000 with the same status.
//
//	Test, TestAudit    the suites, with one test for each promise
//	TestKeepingTimes   a test that records and entries are kept for separate times
//	Stories, Play      random stories of writes, repeated writes, outages, clock steps and deletions
package historytest

import (
	"testing"

	"poold/internal/history"
)

// Open opens an empty store and returns one or more replicas over the same data. The replicas are
// closed when the test ends. A property test opens a hundred stores, one after another.
type Open func(t testing.TB) []history.Store

// Suite is the suite for a history.Store. Each test may run in a separate synctest bubble.
var Suite = map[string]func(*testing.T, Open){
	"RecordsComeBackWhole":     testRecordsComeBackWhole,
	"RepeatedRecordsCountOnce": testRepeatedRecordsCountOnce,
	"ManyWriteTheSame":         testManyWriteTheSame,
	"ManyWriteAtOnce":          testManyWriteAtOnce,
	"CutOffWrites":             testCutOffWrites,
	"OneMillisecond":           testOneMillisecond,
	"UnknownStatus":            testUnknownStatus,
	"PagesFollowEachOther":     testPagesFollowEachOther,
	"TheLongestPage":           testTheLongestPage,
	"AllowedTargets":           testAllowedTargets,
	"FiguresOfADay":            testFiguresOfADay,
	"ADayEndsAtMidnight":       testADayEndsAtMidnight,
	"OwnersAreSeparate":        testOwnersAreSeparate,
	"UnknownSolve":             testUnknownSolve,
	"LookupByTask":             testLookupByTask,
	"EndedContext":             testEndedContext,
}

// Test runs the suite.
func Test(t *testing.T, open Open) {
	for name, test := range Suite {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}
