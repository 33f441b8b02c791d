//go:build !race

package dynamostore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
	"poold/internal/history/historytest"
)

// Three replicas over one table pass the suites.
func TestStore(t *testing.T) {
	server := dynamotest.Start(t)
	dynamotest.Credentials(t)
	historytest.Test(t, func(t testing.TB) []history.Store {
		s := replicas(t, server)
		return []history.Store{s[0], s[1], s[2]}
	})
	historytest.TestAudit(t, func(t testing.TB) []history.Audit {
		s := replicas(t, server)
		return []history.Audit{s[0], s[1], s[2]}
	})
}

// Two replicas over one table pass random stories. During an outage the connection of each
// request breaks, before or after the request reaches the server.
func TestStories(t *testing.T) {
	server := dynamotest.Start(t)
	dynamotest.Credentials(t)
	var down atomic.Bool
	requests := 0
	proxy := dynamotest.Through(t, server, func(string, []byte) dynamotest.Fate {
		requests++
		return dynamotest.Fate{Before: down.Load() && requests%2 == 0, After: down.Load() && requests%2 == 1}
	})
	historytest.Stories(t, 1, func(t *testing.T, seed uint64) {
		o := Options{Table: newTable(t, server.URL), Endpoint: proxy.URL, Keep: historytest.StoryKeep, KeepAudit: historytest.StoryKeep}
		place := historytest.Place{Down: down.Store}
		for range 2 {
			s := openStore(t, o)
			place.Stores, place.Audits = append(place.Stores, s), append(place.Audits, s)
			place.Delete = func() { deleteExpired(t, s) }
		}
		historytest.Play(t, seed, place)
	})
}

// deleteExpired deletes all items whose ttl has passed, as DynamoDB does after some time.
func deleteExpired(t testing.TB, s *Store) {
	t.Helper()
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{TableName: aws.String(s.table)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			if ttl := item(i).number("ttl"); ttl == 0 || ttl > time.Now().Unix() {
				continue
			}
			key := map[string]types.AttributeValue{"PK": i["PK"], "SK": i["SK"]}
			if _, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(s.table), Key: key}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// replicas returns three replicas of a new table.
func replicas(t testing.TB, server *dynamotest.Server) (stores [3]*Store) {
	table := newTable(t, server.URL)
	for n := range stores {
		stores[n] = openStore(t, Options{Table: table, Endpoint: server.URL})
	}
	return stores
}

// Records and audit entries have separate retention times.
func TestKeepingTimes(t *testing.T) {
	server := dynamotest.Start(t)
	dynamotest.Credentials(t)
	historytest.TestKeepingTimes(t, func(t testing.TB, keep, keepAudit time.Duration) (history.Store, history.Audit) {
		s := openStore(t, Options{Table: newTable(t, server.URL), Endpoint: server.URL, Keep: keep, KeepAudit: keepAudit})
		return s, s
	})
}
