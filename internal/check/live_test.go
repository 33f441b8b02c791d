package check

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// A notification reaches the clients of its database only: between two databases it is lost, as behind a pooler.
func TestLostNotificationsAreNoticed(t *testing.T) {
	testkit.WithoutRace(t)
	server := postgrestest.Start(t)
	one, other := server.Database(t), server.Database(t)
	for address, limit := range map[string]time.Duration{one: postgrestest.Patience, other: time.Second} {
		var dbs [2]*postgres.DB
		for i, url := range []string{one, address} {
			var err error
			if dbs[i], err = postgres.Open(url, postgres.Options{Log: slog.New(slog.DiscardHandler), Limit: postgrestest.Patience}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(dbs[i].Close)
		}
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		if got := hears(ctx, dbs[0], dbs[1]); got != (address == one) {
			t.Errorf("heard: %v, want %v", got, !got)
		}
	}
}
