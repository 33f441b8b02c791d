package redisdb

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// keyTypes has the declared Redis types of keys, by the word that follows the prefix in a key.
type keyTypes struct {
	mu     sync.Mutex
	byWord map[string]string
}

// Declare adds Redis types of keys, by the word that follows the prefix in a key. Explain uses them to
// find a key that has another type.
func (db *DB) Declare(types map[string]string) {
	db.types.mu.Lock()
	defer db.types.mu.Unlock()
	if db.types.byWord == nil {
		db.types.byWord = map[string]string{}
	}
	maps.Copy(db.types.byWord, types)
}

// of returns the declared type of the keys that have a word after the prefix; "" if none is declared.
func (k *keyTypes) of(word string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byWord[word]
}

// Explain adds the name of a key to err if the call failed because this key holds another program's
// value.
func (db *DB) Explain(ctx context.Context, err error, keys []string) error {
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	for _, key := range keys {
		word, _, _ := strings.Cut(strings.TrimPrefix(key, db.Prefix+":"), ":")
		found, unread := db.Slow.Type(ctx, key).Result()
		if want := db.types.of(word); unread == nil && found != "none" && want != "" && found != want {
			return fmt.Errorf("the key %s holds a %s where a %s belongs; delete or rename it: %w", key, found, want, err)
		}
	}
	return err
}
