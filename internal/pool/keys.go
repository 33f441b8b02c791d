package pool

import (
	"strings"

	"poold/internal/captcha"
)

// keys has the Redis keys of one identity, in fields with the names that the scripts use.
// lua/README.md lists the keys.
type keys struct {
	tokens, orders, journal, tickets, seen, stats, leads, paused, rate, receipt string
	leases, spend, verdicts, learned, warm, warmers, values, junk, status       string
	apart, ended, failures, hour, attempts                                      string
	once, handout, sale, first                                                  string // prefixes of keys, to which the caller adds the last part
}

// keyspace returns the names of all keys.
type keyspace struct {
	prefix  string // first part of every key
	replica string // random name of this process
}

// keys returns the keys of an identity. All keys are parts of one string, which costs a single
// allocation.
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
		ended: key("ended", ""), sale: key("sold", ":"), values: key("values", ""), verdicts: key("verdicts", ""), junk: key("junk", ""),
		stats: key("stats", ""), hour: key("hour", ""), leads: key("leads", ""), learned: key("mind", ""), status: key("status", ""),
		paused: key("paused", ""), warm: key("warm", ""), warmers: key("warmers", ""), apart: key("retired", ""),
	}
}

// In a cluster, the following keys have different slots unless their comments say otherwise.

// placed is the key of the list of targets' identities for which orders were placed.
func (n *keyspace) placed() string { return n.prefix + ":placed" }

// replicas is the key of the list of live replicas.
func (n *keyspace) replicas() string { return n.prefix + ":replicas" }

// task is the key under which Redis stores to which order a provider's task belongs.
func (n *keyspace) task(provider, task string) string {
	return n.prefix + ":task:{" + provider + "}:" + task
}

// shared is the key of a budget that orders of many identities share. The key's hash tag is not an
// identity.
func (n *keyspace) shared(budget Budget) string { return n.prefix + ":spend:{" + string(budget) + "}" }

// bound is the key of the identity that an Idempotency-Key of POST /solve is bound to.
func (n *keyspace) bound(idempotency string) string {
	return n.prefix + ":bound:{" + onceName(idempotency) + "}"
}

// guestKeys has the keys of all guests together, in one slot. Their hash tag is not an identity.
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

// secret is the key of the secret with which replicas sign the IDs of tokens.
func (n *keyspace) secret() string { return n.prefix + ":secret" }
