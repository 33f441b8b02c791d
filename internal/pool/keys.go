package pool

import (
	"strconv"
	"time"

	"poold/internal/captcha"
)

// keys are the Redis keys of one identity, by the names that the scripts use; the package
// comment lists them.
type keys struct {
	tokens, orders, journal, tickets, seen, stats, leads, paused, rate, receipt string
	leases, spend, verdicts, learned, warm, warmers, values, junk, status       string
	retired, ended, untold, hour, attempts                                      string
	once, handout, sale, first                                                  string // the caller adds the last part
}

// keyspace names every key, and the channel.
type keyspace struct {
	prefix  string // first part of every key
	replica string // random name of this process
}

func (n *keyspace) keys(id captcha.ID) keys {
	key := func(word string) string { return n.prefix + ":" + word + ":{" + string(id) + "}" }
	return keys{
		tokens: key("pool"), tickets: key("tickets"), seen: key("seen"), rate: key("rate"), untold: key("untold"),
		receipt: key("last") + ":" + n.replica, once: key("once") + ":", handout: key("back") + ":", first: key("first") + ":",
		orders: key("orders"), journal: key("journal"), leases: key("leases"), spend: key("spend"), attempts: key("attempts"),
		ended: key("ended"), sale: key("sold") + ":", values: key("values"), verdicts: key("verdicts"), junk: key("junk"),
		stats: key("stats"), hour: key("hour"), leads: key("leads"), learned: key("mind"), status: key("status"),
		paused: key("paused"), warm: key("warm"), warmers: key("warmers"), retired: key("retired"),
	}
}

// Each of the following keys has its own slot unless its comment says otherwise.

// placed holds the targets' identities for which orders were placed.
func (n *keyspace) placed() string { return n.prefix + ":placed" }

// permits holds a provider's permits.
func (n *keyspace) permits(provider string) string { return n.prefix + ":places:{" + provider + "}" }

// standing describes a provider's state, in the slot of its permits.
func (n *keyspace) standing(provider string) string { return n.prefix + ":standing:{" + provider + "}" }

// providerKeys returns the keys of the scripts about a provider.
func (n *keyspace) providerKeys(provider string) named {
	return named{"permits": n.permits(provider), "standing": n.standing(provider)}
}

// providers holds the names of the providers that may have permits.
func (n *keyspace) providers() string { return n.prefix + ":providers" }

// replicas holds the names of the live replicas.
func (n *keyspace) replicas() string { return n.prefix + ":replicas" }

// task names the order that a provider's task belongs to.
func (n *keyspace) task(provider, task string) string {
	return n.prefix + ":task:{" + provider + "}:" + task
}

// shared holds a budget that orders of many identities share. No identity has its name.
func (n *keyspace) shared(budget Budget) string { return n.prefix + ":spend:{" + string(budget) + "}" }

// claimKeys names what is known of one claim: the claim itself, the token of its last
// solve that brought one, and its last failure. All claims and savings are in one slot,
// so that one script sees a claim and the savings.
type claimKeys struct{ claim, token, failure string }

func (n *keyspace) claim(key captcha.ID) claimKeys {
	name := n.prefix + ":claim:{dedup}:" + string(key)
	return claimKeys{claim: name, token: name + ":token", failure: name + ":failure"}
}

// compat holds a task of the compatible endpoints.
func (n *keyspace) compat(number string) named {
	return named{"task": n.prefix + ":compat:{" + number + "}"}
}

// bound holds the identity that an Idempotency-Key of POST /solve is bound to.
func (n *keyspace) bound(idempotency string) string {
	return n.prefix + ":bound:{" + onceName(idempotency) + "}"
}

// savings is the key of what was counted on a UTC day, 2006-01-02.
func (n *keyspace) savings(date string) string { return n.prefix + ":savings:{dedup}:" + date }

// counted is the key that says that a call has counted its requests.
func (n *keyspace) counted(call string) string { return n.prefix + ":counted:{dedup}:" + call }

// guestKeys are the keys of all guests together, in one slot. No identity has its name.
type guestKeys struct {
	guests, uses, row, folded, hold string
	mark                            string // the caller adds the last part
}

func (n *keyspace) guests() guestKeys {
	const tag = ":{" + string(OfGuests) + "}"
	return guestKeys{
		guests: n.prefix + ":guests" + tag, uses: n.prefix + ":rate" + tag, row: n.prefix + ":stats" + tag,
		folded: n.prefix + ":folded" + tag, hold: n.prefix + ":hold" + tag, mark: n.prefix + ":counted" + tag + ":",
	}
}

// archiveKeys begin the names of what is kept of orders that ended, and of who took their
// tokens, all in one slot.
type archiveKeys struct{ mark, alias, site, status, day, audit, usage string }

func (n *keyspace) archive() archiveKeys {
	return archiveKeys{
		mark: n.prefix + ":solve:{history}:", alias: n.prefix + ":alias:{history}:", site: n.prefix + ":records:{history}:site:",
		status: n.prefix + ":records:{history}:", day: n.prefix + ":day:{history}:",
		audit: n.prefix + ":audit:{history}:", usage: n.prefix + ":usage:{history}:",
	}
}

// arrivals counts the requests of a target in the UTC hour of a moment.
func (n *keyspace) arrivals(target string, hour time.Time) string {
	return n.prefix + ":arrivals:{" + target + "}:" + hour.UTC().Format("2006-01-02T15")
}

// secret holds the secret that replicas sign the IDs of tokens with.
func (n *keyspace) secret() string { return n.prefix + ":secret" }

// channel carries notifications between replicas: the ID of an identity that has something for
// a waiter, was paused or resumed, or whose windows changed, or the key of a claim whose solve
// ended or was released. After a callback the message continues with the order and how it ended.
func (n *keyspace) channel() string { return n.prefix + ":wake" }

// probed is the key that a health probe writes; its number is its hash tag.
func (n *keyspace) probed(number int) string {
	return n.prefix + ":probe:{" + strconv.Itoa(number) + "}"
}
