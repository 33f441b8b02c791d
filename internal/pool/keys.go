package pool

import "poold/internal/captcha"

// keys names every Redis key of one identity; the package comment lists them.
type keys struct {
	tokens, orders, journal, tickets, seen, stats, leads, paused, rate, last string
	leases, spend, verdicts, mind, warm, warmers, values, junk, status       string
	retired, ended, untold, hour, attempts                                   string
	once, back, sold, first                                                  string // + suffix
}

// keyspace names every key.
type keyspace struct {
	prefix  string // first part of every key
	replica string // random name of this process
}

func (n *keyspace) keys(id captcha.ID) keys {
	tag := ":{" + string(id) + "}"
	return keys{
		tokens:   n.prefix + ":pool" + tag,
		orders:   n.prefix + ":orders" + tag,
		journal:  n.prefix + ":journal" + tag,
		tickets:  n.prefix + ":tickets" + tag,
		seen:     n.prefix + ":seen" + tag,
		stats:    n.prefix + ":stats" + tag,
		leads:    n.prefix + ":leads" + tag,
		paused:   n.prefix + ":paused" + tag,
		rate:     n.prefix + ":rate" + tag,
		leases:   n.prefix + ":leases" + tag,
		spend:    n.prefix + ":spend" + tag,
		verdicts: n.prefix + ":verdicts" + tag,
		mind:     n.prefix + ":mind" + tag,
		warm:     n.prefix + ":warm" + tag,
		warmers:  n.prefix + ":warmers" + tag,
		values:   n.prefix + ":values" + tag,
		junk:     n.prefix + ":junk" + tag,
		status:   n.prefix + ":status" + tag,
		retired:  n.prefix + ":retired" + tag,
		ended:    n.prefix + ":ended" + tag,
		untold:   n.prefix + ":untold" + tag,
		hour:     n.prefix + ":hour" + tag,
		attempts: n.prefix + ":attempts" + tag,
		last:     n.prefix + ":last" + tag + ":" + n.replica,
		once:     n.prefix + ":once" + tag + ":",
		back:     n.prefix + ":back" + tag + ":",
		first:    n.prefix + ":first" + tag + ":",
		sold:     n.prefix + ":sold" + tag + ":",
	}
}

// placed is the key of the targets' identities for which orders were placed, in a slot
// of its own.
func (n *keyspace) placed() string { return n.prefix + ":placed" }

// permits is the key of a provider's permits, in a slot of its own.
func (n *keyspace) permits(provider string) string { return n.prefix + ":places:{" + provider + "}" }

// standing is the key of how a provider does, in the slot of its permits.
func (n *keyspace) standing(provider string) string { return n.prefix + ":standing:{" + provider + "}" }

// providers is the key of the names at which there may be permits, in a slot of
// its own.
func (n *keyspace) providers() string { return n.prefix + ":providers" }

// replicas is the key of the replicas that live, in a slot of its own.
func (n *keyspace) replicas() string { return n.prefix + ":replicas" }

// task is the key that says whose a provider's task is.
func (n *keyspace) task(provider, task string) string {
	return n.prefix + ":task:{" + provider + "}:" + task
}

// shared is the key of a budget that orders of many identities share, in a slot of
// its own. No identity has the name of one.
func (n *keyspace) shared(budget Budget) string { return n.prefix + ":spend:{" + string(budget) + "}" }

// bound is the key of what an Idempotency-Key of POST /solve is bound to, in a slot of its
// own.
func (n *keyspace) bound(idempotency string) string {
	return n.prefix + ":bound:{" + onceName(idempotency) + "}"
}

// guestKeys names what is kept of all guests, in a slot of its own. No identity has its
// name.
type guestKeys struct{ list, rate, row, folded, hold string }

func (n *keyspace) guests() guestKeys {
	const tag = ":{" + string(OfGuests) + "}"
	return guestKeys{
		list: n.prefix + ":guests" + tag, rate: n.prefix + ":rate" + tag, row: n.prefix + ":stats" + tag,
		folded: n.prefix + ":folded" + tag, hold: n.prefix + ":hold" + tag,
	}
}

// guestsCounted is the key that says that a call has counted its requests for guests.
func (n *keyspace) guestsCounted(call string) string {
	return n.prefix + ":counted:{" + string(OfGuests) + "}:" + call
}

// secret is the key of what replicas sign the names of tokens with.
func (n *keyspace) secret() string { return n.prefix + ":secret" }
