package redisclaims_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/ondemand/redisclaims"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// If the savings cannot be read, the error names the unexpected value. The error does not count
// as an outage.
func TestUnreadableSavingsAreErrors(t *testing.T) {
	for says, spoil := range map[string]func(redis *redistest.Bubble){
		"reading savings: string where a day belongs": func(redis *redistest.Bubble) {
			redis.SetAnswer(func(command string, _ []string) string {
				if strings.HasPrefix(command, "EVAL") {
					return "*1\r\n$1\r\nx\r\n"
				}
				return ""
			})
		},
		`reading the savings of source "pool": `: func(redis *redistest.Bubble) {
			redis.HSet("test:savings:{dedup}:"+time.Now().UTC().Format(time.DateOnly), "pool", "many")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			redis := redistest.InBubble(t)
			db, err := redisdb.Open(redisdb.Options{Addresses: redistest.BubbleAddress, Prefix: "test", Dial: redis.Dial, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			claims := redisclaims.New(db, redisclaims.Options{})
			spoil(redis)
			days, err := claims.Days(t.Context())
			if err == nil || errors.Is(err, redisdb.ErrDown) || !strings.Contains(err.Error(), says) || days != nil {
				t.Errorf("%q: %v, %v", says, days, err)
			}
		})
	}
}
