package dynamostore

import (
	"testing"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
	"poold/internal/history/historytest"
)

// The suite of all stores, by three replicas.
func TestStore(t *testing.T) {
	server := dynamotest.Start(t)
	dynamotest.Credentials(t)
	historytest.Test(t, func(t testing.TB) []history.Store {
		table := newTable(t, server.URL)
		stores := make([]history.Store, 3)
		for n := range stores {
			stores[n] = opened(t, Options{Table: table, Endpoint: server.URL})
		}
		return stores
	})
}
