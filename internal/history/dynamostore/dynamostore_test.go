//go:build !race

package dynamostore

import (
	"testing"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
	"poold/internal/history/historytest"
)

// The suites of all stores and audits, by three replicas.
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

// replicas have a new table.
func replicas(t testing.TB, server *dynamotest.Server) (stores [3]*Store) {
	table := newTable(t, server.URL)
	for n := range stores {
		stores[n] = opened(t, Options{Table: table, Endpoint: server.URL})
	}
	return stores
}
