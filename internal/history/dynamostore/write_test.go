//go:build !race

package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

// A writer dies between the transaction and the copies, or after some copies. When another writer
// writes the same records, it puts the missing copies and counts each record once.
func TestWriterDiesBeforeTheCopies(t *testing.T) {
	for name, dies := range map[string]dynamotest.Fate{
		"before": {Before: true}, "after": {After: true}, "refused": {Answer: "AccessDeniedException"},
	} {
		t.Run(name, func(t *testing.T) {
			var dead atomic.Bool
			batches := 0
			s, _ := openThrough(t, func(operation string, _ []byte) dynamotest.Fate {
				if operation != "BatchWriteItem" || !dead.Load() {
					return dynamotest.Fate{}
				}
				if batches++; batches == 1 {
					return dynamotest.Fate{} // the first 25 copies
				}
				return dies
			})
			all := records(yesterday(), 60)
			dead.Store(true)
			if err := s.Write(t.Context(), all); !errors.Is(err, history.ErrDown) {
				t.Fatalf("writing: %v", err)
			}
			dead.Store(false)
			if n := len(site(t, s, all[0].Sitekey)); n == 0 || n == 60 {
				t.Errorf("%d items of the site were written", n)
			}
			mustWrite(t, s, append(all, record(yesterday(), 1))...)
			if n := len(site(t, s, all[0].Sitekey)); n != 61 {
				t.Errorf("%d items of the site, want 61", n)
			}
			day, err := s.Day(t.Context(), yesterday())
			if want := dayOf(append(all, record(yesterday(), 1))); err != nil || !reflect.DeepEqual(day, want) {
				t.Errorf("the day: %v\n%v, want\n%v", err, day, want)
			}
		})
	}
}

// The store repeats throttled calls, conflicting transactions and unprocessed items.
func TestBusyServiceIsAskedAgain(t *testing.T) {
	for name, fate := range map[string]dynamotest.Fate{
		"throttled":   {Answer: "ProvisionedThroughputExceededException"},
		"slowed":      {Answer: "ThrottlingException"},
		"limited":     {Answer: "RequestLimitExceeded"},
		"met":         {Answer: "TransactionCanceledException", Reasons: []string{"None", "TransactionConflict"}},
		"throttled 2": {Answer: "TransactionCanceledException", Reasons: []string{"ThrottlingError", "None"}},
		"under way":   {Answer: "TransactionInProgressException"},
		"unprocessed": {Unprocessed: 20},
	} {
		t.Run(name, func(t *testing.T) {
			const times = mostBroken + 1
			busy := map[string]int{}
			s, proxy := openThrough(t, func(operation string, _ []byte) dynamotest.Fate {
				if fate.Reasons != nil && operation != "TransactWriteItems" || fate.Unprocessed > 0 && operation != "BatchWriteItem" {
					return dynamotest.Fate{}
				}
				if busy[operation]++; busy[operation] > times {
					return dynamotest.Fate{}
				}
				return fate
			})
			all := records(yesterday(), 50)
			mustWrite(t, s, all...)
			if found := site(t, s, all[0].Sitekey); len(found) != 50 {
				t.Errorf("%d of the site, want 50", len(found))
			}
			if day, err := s.Day(t.Context(), yesterday()); err != nil || !reflect.DeepEqual(day, dayOf(all)) {
				t.Errorf("the day: %v, %v", day, err)
			}
			if _, found, err := s.Solve(t.Context(), all[0].ID); err != nil || !found {
				t.Errorf("a solve: %v, %v", found, err)
			}
			if fate.Reasons == nil && proxy.Requests("BatchWriteItem") <= times || fate.Unprocessed == 0 && proxy.Requests("TransactWriteItems") <= times {
				t.Errorf("%d transactions, %d batches", proxy.Requests("TransactWriteItems"), proxy.Requests("BatchWriteItem"))
			}
		})
	}
}

// If DynamoDB throttles a call every time, the pauses become longer and longer. The call fails after
// some seconds, or when its context ends.
func TestThrottledForEver(t *testing.T) {
	for name, fate := range map[string]dynamotest.Fate{
		"throttled": {Answer: "ProvisionedThroughputExceededException"}, "unprocessed": {Unprocessed: 25},
	} {
		s, proxy := openThrough(t, func(string, []byte) dynamotest.Fate { return fate })
		for _, limit := range []time.Duration{5 * time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			err := s.Write(ctx, records(yesterday(), history.MostBatch))
			took := time.Since(began)
			cancel()
			// The short limit may expire during a pause or during a call.
			inCall := limit < time.Minute && strings.HasSuffix(err.Error(), "no answer in time")
			if !inCall && !strings.HasSuffix(err.Error(), "DynamoDB is too busy") || errors.Is(err, history.ErrDown) != (limit == time.Minute) ||
				errors.Is(err, context.DeadlineExceeded) != (limit < time.Minute) {
				t.Errorf("%s: within %v: %v", name, limit, err)
			}
			if took > min(limit+time.Second, mostBusy*pauses.Most*3/2) {
				t.Errorf("%s: within %v: ended after %v", name, limit, took)
			}
		}
		if n := proxy.Requests("TransactWriteItems") + proxy.Requests("BatchWriteItem"); n < mostBusy || n > 2*mostBusy+2 { // two writes, each with its transaction
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// A later write with the same ID changes neither the record nor its copy for the site.
func TestFirstRecordStays(t *testing.T) {
	s, _ := openThrough(t, nil)
	r := record(yesterday(), 0)
	mustWrite(t, s, r)
	other := record(yesterday().Add(time.Hour), 1, func(o *history.Record) { o.ID, o.Identity, o.Sitekey = r.ID, r.Identity, r.Sitekey })
	mustWrite(t, s, other, record(yesterday(), 2))
	if found := site(t, s, r.Sitekey); len(found) != 2 || found[0] != r && found[1] != r {
		t.Errorf("of the site: %v", found)
	}
}

// The SDK gives each transaction a token. If the response to a transaction is lost, the repeated
// transaction has no effect.
func TestTransactionWithLostAnswerRunsOnce(t *testing.T) {
	lost := 0
	s, proxy := openThrough(t, func(operation string, body []byte) dynamotest.Fate {
		if operation == "TransactWriteItems" && bytes.Contains(body, []byte("ClientRequestToken")) {
			lost++
			return dynamotest.Fate{After: lost < mostBroken}
		}
		return dynamotest.Fate{}
	})
	all := records(yesterday(), 20)
	mustWrite(t, s, all...)
	if n := proxy.Requests("TransactWriteItems"); n != mostBroken {
		t.Errorf("%d transactions, want %d", n, mostBroken)
	}
	if day, err := s.Day(t.Context(), yesterday()); err != nil || !reflect.DeepEqual(day, dayOf(all)) {
		t.Errorf("the day: %v, %v", day, err)
	}
}
