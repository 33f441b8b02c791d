//go:build !race

package dynamostore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

const (
	transactionTime = 10 * time.Millisecond
	partitionUnits  = 1000
)

// limits models two limits of DynamoDB that the emulator lacks. A transaction holds its items for
// transactionTime; another transaction with a held item is cancelled. A partition accepts
// partitionUnits write units per second.
type limits struct {
	held                 map[string]time.Time // time at which the hold of an item ends, by key
	second               time.Time            // start of the second that the field units counts
	units                map[string]int       // used units by partition
	conflicts, throttled int
}

// judge judges the requests one after another.
func (l *limits) judge(operation string, body []byte) dynamotest.Fate {
	if operation != "TransactWriteItems" {
		return dynamotest.Fate{Delay: transactionTime / 2}
	}
	type keyed struct{ PK, SK struct{ S string } }
	var in struct {
		TransactItems []struct {
			Put    *struct{ Item keyed }
			Update *struct{ Key keyed }
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return dynamotest.Fate{Answer: "ValidationException"}
	}
	now := time.Now()
	if now.Sub(l.second) > time.Second {
		l.second, l.units = now, map[string]int{}
	}
	var keys []keyed
	for _, i := range in.TransactItems {
		if i.Put != nil {
			keys = append(keys, i.Put.Item)
		} else {
			keys = append(keys, i.Update.Key)
		}
	}
	reasons := make([]string, len(keys))
	conflict, throttled := false, false
	for n, k := range keys {
		reasons[n] = "None"
		switch {
		case now.Before(l.held[k.PK.S+"|"+k.SK.S]):
			reasons[n], conflict = "TransactionConflict", true
		case l.units[k.PK.S]+2 > partitionUnits:
			reasons[n], throttled = "ThrottlingError", true
		}
	}
	switch {
	case conflict:
		l.conflicts++
	case throttled:
		l.throttled++
	default:
		for _, k := range keys {
			l.held[k.PK.S+"|"+k.SK.S] = now.Add(transactionTime)
			l.units[k.PK.S] += 2
		}
		return dynamotest.Fate{Delay: transactionTime}
	}
	return dynamotest.Fate{Answer: "TransactionCanceledException", Reasons: reasons, Delay: transactionTime / 4}
}

// Twenty replicas write 400 records per second for 400 targets. Like a Sender, each replica
// collects the records that end during a write, and writes them as one batch after this write. All
// replicas update the same items of the day. No write fails, and no replica falls far behind.
func TestOneItemOfADayTakesManyReplicas(t *testing.T) {
	const (
		replicas = 20
		rate     = 20 // records per second of each replica
		lasts    = 3 * time.Second
		most     = rate * int(lasts/time.Second)
		targets  = 400
	)
	model := &limits{held: map[string]time.Time{}, units: map[string]int{}}
	s, proxy := openThrough(t, model.judge)
	var (
		group   sync.WaitGroup
		batches atomic.Int64
		late    [replicas]time.Duration
		all     [replicas][]history.Record
	)
	for k := range replicas {
		replica := openStore(t, Options{Table: s.table, Endpoint: proxy.URL})
		all[k] = records(yesterday().Add(time.Duration(k)*time.Minute), most)
		for i := range all[k] {
			all[k][i].Target, all[k][i].Type = fmt.Sprint("target-", (i*replicas+k)%targets), captcha.Types()[i%2]
		}
		group.Go(func() {
			began := time.Now()
			for written := 0; written < most; {
				ended := min(most, 1+int(time.Since(began)*rate/time.Second))
				if ended == written {
					time.Sleep(time.Millisecond)
					continue
				}
				end := min(ended, written+history.MostBatch)
				if err := replica.Write(t.Context(), all[k][written:end]); err != nil {
					t.Errorf("writing: %v", err)
					return
				}
				written = end
				batches.Add(1)
			}
			late[k] = time.Since(began) - lasts
		})
	}
	group.Wait()
	slowest := slices.Max(late[:])
	t.Logf("%d batches of %d records, %d conflicts, %d throttled; the last replica was done %v late",
		batches.Load(), replicas*most, model.conflicts, model.throttled, slowest.Round(time.Millisecond))
	if model.conflicts == 0 {
		t.Error("no transaction met another one")
	}
	if slowest > 30*time.Second {
		t.Errorf("a replica was done %v late", slowest)
	}
	day, err := s.Day(t.Context(), yesterday())
	if err != nil || !reflect.DeepEqual(day, dayOf(slices.Concat(all[:]...))) {
		t.Errorf("the day: %v", err)
	}
}
