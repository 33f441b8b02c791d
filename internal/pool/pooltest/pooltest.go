// Package pooltest opens a store whose parts are one, for stories in which buyer,
// taker and operator meet. Only tests import it.
package pooltest

import (
	"poold/internal/permits"
	"poold/internal/pool"
)

// Store is a pool.Store with the methods of the parts that targets use, and permits.
type Store struct {
	*pool.Store
	*pool.Tokens
	*pool.Orders
	*permits.Permits
	*pool.Controls
	*pool.Replicas
}

// Open is pool.Open.
func Open(o pool.Options) (*Store, error) {
	s, err := pool.Open(o)
	if err != nil {
		return nil, err
	}
	return &Store{s, s.Tokens, s.Orders, permits.New(s.DB), s.Controls, s.Replicas}, nil
}
