package pool

import (
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
)

// The first holder that hands out a token stays the first at every replica until the token dies.
// FirstHolder returns false for all other holders.
func TestFirstHolderStaysFirst(t *testing.T) {
	address := "redis://" + redistest.Server(t)
	one, two, id := open(t, Options{Addresses: address}), open(t, Options{Addresses: address}), identity("first")
	token := Token{Order: "order", TTL: time.Minute}
	for i, c := range []struct {
		s      *replica
		holder string
		want   bool
	}{{one, "1", true}, {one, "1", true}, {two, "2", false}, {two, "1", true}, {one, "2", false}} {
		if got, err := c.s.FirstHolder(t.Context(), id, token, c.holder); err != nil || got != c.want {
			t.Errorf("call %d: %v, %v", i, got, err)
		}
	}
	if got, err := two.FirstHolder(t.Context(), id, Token{Order: "another", TTL: time.Minute}, "2"); err != nil || !got {
		t.Errorf("another token: %v, %v", got, err)
	}
	key := one.keys(id).first + token.Order
	if left := one.db.Slow.PTTL(t.Context(), key).Val(); left <= token.TTL-20*time.Second || left > token.TTL {
		t.Errorf("kept for %v", left)
	}
	foreign := Token{Order: "foreign", TTL: time.Minute}
	must(t, one.db.Slow.RPush(t.Context(), one.keys(id).first+foreign.Order, "x").Err())
	if got, err := one.FirstHolder(t.Context(), id, foreign, "1"); err == nil || got {
		t.Errorf("a foreign value: %v, %v", got, err)
	}
}
