package redisdb

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// keyTypes contains the declared Redis types of keys, by the second part of the key (after the
// prefix).
type keyTypes struct {
	mu     sync.Mutex
	byWord map[string]string
}

// Declare adds Redis types of keys, by the second part of the key (after the prefix). With these
// types, Explain finds a key that has another type.
func (db *DB) Declare(types map[string]string) {
	db.types.mu.Lock()
	defer db.types.mu.Unlock()
	if db.types.byWord == nil {
		db.types.byWord = map[string]string{}
	}
	maps.Copy(db.types.byWord, types)
}

// declared returns the type that Declare has set for keys with this second part, such as
// "pool" in captcha:pool:{id}; "" = none.
func (k *keyTypes) declared(word string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byWord[word]
}

// Explain handles the error of a call with these keys. If the call failed because a key holds another
// program's value, the new error contains the key.
func (db *DB) Explain(ctx context.Context, err error, keys []string) error {
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	for _, key := range keys {
		word, _, _ := strings.Cut(strings.TrimPrefix(key, db.Prefix+":"), ":")
		found, unread := db.Slow.Type(ctx, key).Result()
		if want := db.types.declared(word); unread == nil && found != "none" && want != "" && found != want {
			return fmt.Errorf("the key %s holds a %s where a %s belongs; delete or rename it: %w", key, found, want, err)
		}
	}
	return err
}
