package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb/redistest"
)

// The scripts run in a bubble's time: what takes two minutes there takes none here.
func TestTheScriptsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		s, id := open(t, Options{Addresses: "redis://bubble", Dial: redis.Dial}), identity("bubble")
		place(t, s, id, "one")
		time.Sleep(10 * time.Second)
		land(t, s, id, "one", 0, 100*time.Second)
		time.Sleep(30 * time.Second)
		if got := look(t, s, id); got.Fresh != 1 || got.NextExpiry != 60*time.Second {
			t.Fatalf("40 s after a token of 100 s was ordered: %+v", got)
		}
		redis.SetDown(true)
		time.Sleep(5 * time.Second)
		if s.DB.Health().Up {
			t.Error("up without a server")
		}
		redis.SetDown(false)
		time.Sleep(2 * time.Second)
		token, err := s.Take(t.Context(), Request{ID: id})
		if err != nil || token.TTL != 53*time.Second {
			t.Fatalf("taken with a life of %v: %v", token.TTL, err)
		}
		place(t, s, id, "two")
		time.Sleep(2 * time.Minute)
		if got := look(t, s, id); got.Orders != 0 {
			t.Fatalf("an order of a minute after two: %+v", got)
		}
	})
}
