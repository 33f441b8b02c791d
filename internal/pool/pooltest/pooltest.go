// Package pooltest opens a store that has the methods of all parts in one type. The tests of
// packages that use package pool import it.
package pooltest

import (
	"poold/internal/permits"
	"poold/internal/pool"
)

// Store is a pool.Store with the methods of its parts and of permits.Permits.
type Store struct {
	*pool.Store
	*pool.Tokens
	*pool.Orders
	*permits.Permits
	*pool.Controls
	*pool.Replicas
}

// Open opens a Store with the options of pool.Open.
func Open(o pool.Options) (*Store, error) {
	s, err := pool.Open(o)
	if err != nil {
		return nil, err
	}
	return &Store{s, s.Tokens, s.Orders, permits.New(s.DB), s.Controls, s.Replicas}, nil
}
