package pool

import (
	"strings"

	"poold/internal/captcha"
)

// keys contains the Redis keys of one identity. The names of the fields are the names in the scripts.
// lua/README.md lists the keys.
type keys struct {
	tokens, orders, journal, tickets, seen, stats, leads, paused, rate, receipt string
	leases, spend, verdicts, learned, values, status                            string
	apart, ended, failures, hour, hours, attempts                               string
	once, handout, sale, first                                                  string // prefixes of keys; the caller adds the last part
}

// keyspace makes the names of all keys.
type keyspace struct {
	prefix  string // first part of every key
	replica string // random name of this process
}

// keys returns the keys of an identity. All these keys are parts of one string to save allocations.
func (n *keyspace) keys(id captcha.ID) keys {
	const many = 30
	var all strings.Builder
	all.Grow(many * (len(n.prefix) + len(id) + len(":attempts:{}:")))
	tag := ":{" + string(id) + "}"
	key := func(word, end string) string {
		begin := all.Len()
		for _, part := range [...]string{n.prefix, ":", word, tag, end} {
			all.WriteString(part)
		}
		return all.String()[begin:]
	}
	return keys{
		tokens: key("pool", ""), tickets: key("tickets", ""), seen: key("seen", ""), rate: key("rate", ""), failures: key("untold", ""),
		receipt: key("last", ":"+n.replica), once: key("once", ":"), handout: key("back", ":"), first: key("first", ":"),
		orders: key("orders", ""), journal: key("journal", ""), leases: key("leases", ""), spend: key("spend", ""), attempts: key("attempts", ""),
		ended: key("ended", ""), sale: key("sold", ":"), values: key("values", ""), verdicts: key("verdicts", ""),
		stats: key("stats", ""), hour: key("hour", ""), hours: key("hours", ""), leads: key("leads", ""), learned: key("mind", ""), status: key("status", ""),
		paused: key("paused", ""), apart: key("retired", ""),
	}
}

// In a cluster, the following keys are in different slots unless their comments say otherwise.

// placedKey is the key of the list of placed identities, which are targets' identities with recent
// orders.
func (n *keyspace) placedKey() string { return n.prefix + ":placed" }

// replicasKey is the key of the list of live replicas.
func (n *keyspace) replicasKey() string { return n.prefix + ":replicas" }

// taskKey is the key that stores the order of one task of a provider.
func (n *keyspace) taskKey(provider, task string) string {
	return n.prefix + ":task:{" + provider + "}:" + task
}

// budgetKey is the key of a shared budget. The hash tag of this key is not an identity.
func (n *keyspace) budgetKey(budget Budget) string {
	return n.prefix + ":spend:{" + string(budget) + "}"
}

// bindingKey is the key that stores the identity to which an Idempotency-Key of POST /solve is bound.
func (n *keyspace) bindingKey(idempotency string) string {
	return n.prefix + ":bound:{" + onceName(idempotency) + "}"
}

// guestKeys contains the common keys of all guests, in one slot. The hash tag of these keys is not an
// identity.
type guestKeys struct {
	guests, uses, row, added, hold string
	mark                           string // the caller adds the last part
}

func (n *keyspace) guests() guestKeys {
	const tag = ":{" + string(OfGuests) + "}"
	return guestKeys{
		guests: n.prefix + ":guests" + tag, uses: n.prefix + ":rate" + tag, row: n.prefix + ":stats" + tag,
		added: n.prefix + ":folded" + tag, hold: n.prefix + ":hold" + tag, mark: n.prefix + ":counted" + tag + ":",
	}
}

// secretKey is the key of the secret that signs the IDs of tokens.
func (n *keyspace) secretKey() string { return n.prefix + ":secret" }
