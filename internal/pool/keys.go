package pool

import "poold/internal/captcha"

// keys names every Redis key of one identity; the package comment lists them.
type keys struct {
	tokens, orders, journal, tickets, seen, stats, leads, paused, rate, last string
	leases, spend, verdicts, mind, warm, warmers, values, junk               string
	once, back, sold                                                         string // + suffix
}

func (s *Store) keys(id captcha.ID) keys {
	tag := ":{" + string(id) + "}"
	return keys{
		tokens:   s.prefix + ":pool" + tag,
		orders:   s.prefix + ":orders" + tag,
		journal:  s.prefix + ":journal" + tag,
		tickets:  s.prefix + ":tickets" + tag,
		seen:     s.prefix + ":seen" + tag,
		stats:    s.prefix + ":stats" + tag,
		leads:    s.prefix + ":leads" + tag,
		paused:   s.prefix + ":paused" + tag,
		rate:     s.prefix + ":rate" + tag,
		leases:   s.prefix + ":leases" + tag,
		spend:    s.prefix + ":spend" + tag,
		verdicts: s.prefix + ":verdicts" + tag,
		mind:     s.prefix + ":mind" + tag,
		warm:     s.prefix + ":warm" + tag,
		warmers:  s.prefix + ":warmers" + tag,
		values:   s.prefix + ":values" + tag,
		junk:     s.prefix + ":junk" + tag,
		last:     s.prefix + ":last" + tag + ":" + s.replica,
		once:     s.prefix + ":once" + tag + ":",
		back:     s.prefix + ":back" + tag + ":",
		sold:     s.prefix + ":sold" + tag + ":",
	}
}

// places is the key of a provider's places, in a slot of its own.
func (s *Store) places(provider string) string { return s.prefix + ":places:{" + provider + "}" }

// providers is the key of the names at which there may be places, in a slot of
// its own.
func (s *Store) providers() string { return s.prefix + ":providers" }

// task is the key that says whose a provider's task is.
func (s *Store) task(provider, task string) string {
	return s.prefix + ":task:{" + provider + "}:" + task
}

// overall is the key of the budget over all targets, in a slot of its own. No
// identity has this name.
func (s *Store) overall() string { return s.prefix + ":spend:{overall}" }

// secret is the key of what replicas seal the names of tokens with.
func (s *Store) secret() string { return s.prefix + ":secret" }

// channel carries the IDs of identities in which there is something for a waiter,
// whose buying was paused or resumed, or whose windows changed; after a callback
// the order and how it ended stand behind it.
func (s *Store) channel() string { return s.prefix + ":wake" }
