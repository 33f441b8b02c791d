//go:build !race

package dynamostore

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

// Twenty replicas write records over a bad network. Four replicas write the same record. Connections
// break before a request or its response arrives, and transactions conflict. Each record counts once.
func TestReplicasOnABadNetwork(t *testing.T) {
	const replicas, n = 20, 1000
	var before, after, met atomic.Int64
	var healed atomic.Bool
	s, proxy := openThrough(t, func(operation string, _ []byte) dynamotest.Fate {
		if healed.Load() {
			return dynamotest.Fate{}
		}
		switch dice := rand.IntN(100); {
		case dice < 10:
			before.Add(1)
			return dynamotest.Fate{Before: true}
		case dice < 25:
			after.Add(1)
			return dynamotest.Fate{After: true}
		case dice < 30 && operation == "TransactWriteItems":
			met.Add(1)
			return dynamotest.Fate{Answer: "TransactionCanceledException", Reasons: []string{"TransactionConflict"}}
		case dice < 35 && operation == "BatchWriteItem":
			return dynamotest.Fate{Unprocessed: rand.IntN(25)}
		default:
			return dynamotest.Fate{}
		}
	})
	all := records(yesterday(), n)
	var failed atomic.Int64
	var group sync.WaitGroup
	for k := range replicas {
		replica := openStore(t, Options{Table: s.table, Endpoint: proxy.URL})
		var mine []history.Record
		for i := k % 5; i < n; i += 5 {
			mine = append(mine, all[i])
		}
		rand.Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		group.Go(func() {
			for len(mine) > 0 {
				size := min(1+rand.IntN(history.MostBatch), len(mine))
				if err := replica.Write(t.Context(), mine[:size]); err != nil {
					failed.Add(1) // the replica writes the whole batch again
					continue
				}
				mine = mine[size:]
			}
		})
	}
	group.Wait()
	healed.Store(true)
	t.Logf("%d requests cut before and %d after the service had them, %d met, %d writes failed",
		before.Load(), after.Load(), met.Load(), failed.Load())
	if after.Load() == 0 || before.Load() == 0 || met.Load() == 0 || failed.Load() == 0 {
		t.Error("nothing went wrong")
	}
	day, err := s.Day(t.Context(), yesterday())
	if err != nil || !reflect.DeepEqual(day, dayOf(all)) {
		t.Errorf("the day: %v\n%v, want\n%v", err, day, dayOf(all))
	}
	found := len(site(t, s, all[0].Sitekey))
	if found != n {
		t.Errorf("the site has %d records, want %d", found, n)
	}
}
