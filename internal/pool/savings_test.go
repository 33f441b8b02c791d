package pool

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// The savings of seven UTC days are kept, by Redis' clock.
func TestSavingsAreKeptSevenDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		db, _ := server.Client(redis.Options{})
		defer func() { _ = db.Close() }()
		p := New(Config{Slow: db, Fast: db, Prefix: "p", Log: slog.New(slog.DiscardHandler)})
		at := time.Date(2028, 2, 28, 23, 59, 59, 0, time.UTC)
		for _, c := range []struct {
			pass time.Duration
			save int
			want string
		}{
			{0, 1, "1 0 0 0 0 0 0"},
			{time.Second, 2, "2 1 0 0 0 0 0"}, // a leap day begins
			{time.Second, 3, "5 1 0 0 0 0 0"},
			{6*24*time.Hour - 2*time.Second, 0, "0 0 0 0 0 5 1"},
			{time.Second, 0, "0 0 0 0 0 0 5"},
			{24*time.Hour + time.Second, 0, "0 0 0 0 0 0 0"},
		} {
			at = at.Add(c.pass)
			server.SetTime(at)
			for range c.save {
				for _, source := range []SavingsSource{SavedSolve, SavedMissed, SavedMissed} {
					testkit.NoError(t, p.Save(t.Context(), source))
				}
			}
			totals, err := p.Totals(t.Context())
			testkit.NoError(t, err)
			var got []string
			for i, day := range totals.Savings {
				got = append(got, fmt.Sprint(day.BySource[SavedSolve]))
				if date := at.AddDate(0, 0, -i).Format(time.DateOnly); day.Date != date ||
					day.BySource[SavedMissed] != 2*day.BySource[SavedSolve] {
					t.Errorf("%d days ago: %+v, want %s", i, day, date)
				}
			}
			testkit.Equal(t, fmt.Sprint("savings at ", at), strings.Join(got, " "), c.want)
		}
		testkit.Equal(t, "keys that are left", strings.Join(server.Keys(), " "), "")
	})
}
