package pool

import "poold/internal/captcha"

// keys names every Redis key of one identity; the package comment lists them.
type keys struct {
	tokens, orders, journal, tickets, seen, stats, leads, paused, rate, last string
	once, back                                                               string // + suffix
}

func (s *Store) keys(id captcha.ID) keys {
	tag := ":{" + string(id) + "}"
	return keys{
		tokens:  s.prefix + ":pool" + tag,
		orders:  s.prefix + ":orders" + tag,
		journal: s.prefix + ":journal" + tag,
		tickets: s.prefix + ":tickets" + tag,
		seen:    s.prefix + ":seen" + tag,
		stats:   s.prefix + ":stats" + tag,
		leads:   s.prefix + ":leads" + tag,
		paused:  s.prefix + ":paused" + tag,
		rate:    s.prefix + ":rate" + tag,
		last:    s.prefix + ":last" + tag + ":" + s.replica,
		once:    s.prefix + ":once" + tag + ":",
		back:    s.prefix + ":back" + tag + ":",
	}
}

// places is the key of a provider's places, in a slot of its own.
func (s *Store) places(provider string) string { return s.prefix + ":places:{" + provider + "}" }

// channel carries the IDs of identities in which there is something for a waiter,
// or whose buying was paused or resumed.
func (s *Store) channel() string { return s.prefix + ":wake" }
