//go:build !race

package dynamostore

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

// Check and Init stop at the first call that DynamoDB does not permit. Their error names this call.
// After the permission is granted, a repeated Init completes the table.
func TestRefusedCallsEndCheckAndInit(t *testing.T) {
	dynamotest.Credentials(t)
	server := dynamotest.Start(t)
	order := []string{"CreateTable", "DescribeTable", "DescribeTimeToLive", "UpdateTimeToLive", "UpdateTable"}
	prepare := func(s *Store) error { return s.Init(t.Context(), true) }
	check := func(s *Store) error { return s.Check(t.Context()) }
	for _, c := range []struct {
		refused, says string
		call          func(*Store) error
		exists        bool // the table exists, without a stream
	}{
		{"CreateTable", "making the table", prepare, false},
		{"DescribeTable", "waiting for the table", prepare, false},
		{"DescribeTimeToLive", "looking at the table", prepare, false},
		{"UpdateTimeToLive", "setting the table's time to live", prepare, false},
		{"UpdateTable", "adding a stream to the table", prepare, true},
		{"DescribeTable", "looking at the table", check, true},
		{"DescribeTimeToLive", "looking at the table", check, true},
	} {
		proxy := dynamotest.Through(t, server, func(operation string, _ []byte) dynamotest.Fate {
			return dynamotest.Fate{Answer: map[bool]string{true: "AccessDeniedException"}[operation == c.refused]}
		})
		table := "test-" + rand.Text()
		direct := openStore(t, Options{Table: table, Endpoint: server.URL})
		if c.exists {
			if err := direct.Init(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		err := c.call(openStore(t, Options{Table: table, Endpoint: proxy.URL}))
		want := c.says + ": " + history.ErrDown.Error() + ": the credentials do not allow it (AccessDeniedException)"
		if !errors.Is(err, history.ErrDown) || err.Error() != want {
			t.Errorf("%s is refused: %v, want %s", c.refused, err, want)
		}
		for _, later := range order[slices.Index(order, c.refused)+1:] {
			if n := proxy.Requests(later); n != 0 {
				t.Errorf("%s is refused, and %s is called %d times", c.refused, later, n)
			}
		}
		if err := errors.Join(direct.Init(t.Context(), true), direct.Check(t.Context())); err != nil {
			t.Errorf("%s is allowed again: %v", c.refused, err)
		}
	}
}
