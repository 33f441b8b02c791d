package pool

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// KeysOf lists the keys of a store's Redis that a pattern names, for tests outside of
// this package.
func KeysOf(t testing.TB, s *Store, pattern string) []string {
	t.Helper()
	var mu sync.Mutex
	var found []string
	err := s.DB.EachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		found = append(found, keys...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
