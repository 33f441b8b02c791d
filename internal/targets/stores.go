package targets

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

const day = 24 * time.Hour

// validate checks the addresses and removes the spaces between them. No message quotes an address,
// because it may contain a password. A prefix must not contain braces, which would override the hash
// tags that keep the keys of an identity in one slot of a cluster.
func (d *Redis) validate(at *setting) {
	at.rule(d.URL != "", "url", "is empty: write embedded or an address%s", toSet(at.at("url").names))
	addresses := strings.Split(d.URL.Reveal(), ",")
	for i, address := range addresses {
		addresses[i] = strings.TrimSpace(address)
		if rule := redisFault(addresses[i]); rule != "" && !d.Embedded() {
			at.check("url", fmt.Sprintf("address %d %s", i+1, rule))
		}
	}
	d.URL = captcha.Secret(strings.Join(addresses, ","))
	scheme := func(address string) string { s, _, _ := strings.Cut(address, ":"); return s }
	mixed := slices.ContainsFunc(addresses, func(a string) bool { return scheme(a) != scheme(addresses[0]) })
	at.rule(!mixed, "url", "the addresses have different schemes: all with TLS (rediss), or none")
	sentinel := d.SentinelMaster != ""
	at.rule(!sentinel || !d.Embedded(), "sentinel_master",
		"needs the sentinels' addresses in redis.url, not the embedded server")
	at.rule(scheme(addresses[0]) != "unix" || len(addresses) == 1 && !sentinel, "url",
		"a unix socket is one server: a cluster and sentinels have redis:// or rediss:// addresses")
	at.rule(sentinel || d.SentinelUser == "" && d.SentinelPassword == "", "sentinel_master",
		"is missing: sentinel_user and sentinel_password are of sentinels")
	at.rule(d.SentinelUser == "" || d.SentinelPassword != "", "sentinel_password", "is empty, but sentinel_user is not")
	at.rule(scheme(addresses[0]) == "rediss" || d.TLS.Cert == "" && d.TLS.CA == "", "tls",
		"needs rediss:// addresses in redis.url")
	at.rule(len(addresses) == 1 || sentinel || !slices.ContainsFunc(addresses, namesDatabase), "url",
		"several addresses are a cluster, which has database 0 alone: remove the number, or set sentinel_master")
}

// redisFault returns the rule that one address violates.
func redisFault(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "is not a URL: begin with redis://, rediss:// or unix:// and write special characters of a password as %XX"
	}
	socket := u.Scheme == "unix"
	_, err = redis.ParseURL(address) // may quote the address
	return first(
		check{address == "", "is empty: look for a comma too many"},
		check{!socket && u.Scheme != "redis" && u.Scheme != "rediss",
			"must be redis://, rediss:// or unix://, or the one word embedded"},
		check{!socket && u.Hostname() == "", "names no host: write redis://HOST:6379"},
		check{socket && err != nil, "needs the path of the socket, such as unix:///run/redis.sock"},
		check{err != nil, "ends in something that is not the number of a database, or has a parameter that is unknown"},
	)
}

// namesDatabase reports whether a valid address selects a database other than 0.
func namesDatabase(address string) bool {
	options, err := redis.ParseURL(address)
	return err == nil && options.DB != 0
}

// DedupBackend is the store of the claims on shared solves.
type DedupBackend string

// The values of `dedup.backend`.
const (
	DedupRedis    DedupBackend = "redis"
	DedupPostgres DedupBackend = "postgres"
)

// Dedup is the section dedup of pools.yaml. A change of this section needs a restart.
type Dedup struct {
	// redis: the server of the section redis; postgres: the database of url. One of redis, postgres. Default:
	// redis.
	Backend DedupBackend `yaml:"backend" oneof:"redis postgres"`
	// Address of the database, beginning with postgres://. Needed with postgres.
	URL captcha.Secret `yaml:"url"`
}

func (d *Dedup) validate(at *setting) {
	checkPostgres(at, d.URL, d.Backend == DedupPostgres)
}

// checkPostgres checks the address of a database. No message quotes it, because it may contain a
// password.
func checkPostgres(at *setting, address captcha.Secret, wanted bool) {
	u, err := url.Parse(address.Reveal())
	switch given := address != ""; {
	case !given:
		at.rule(!wanted || !at.ok("backend"), "url",
			"is required with backend: postgres, as postgres://USER:PASSWORD@HOST/DATABASE%s", toSet(at.at("url").names))
	case err != nil:
		at.check("url", "is not a URL: begin with postgres:// and write special characters of a password as %XX")
	default:
		at.rule(u.Scheme == "postgres" || u.Scheme == "postgresql", "url",
			"must be a URL that begins with postgres:// or postgresql://")
		at.rule(u.Hostname() != "" || u.Query().Get("host") != "", "url",
			"names no host: write postgres://USER:PASSWORD@HOST/DATABASE, or ?host=/DIRECTORY for a socket")
		at.rule(wanted || !at.ok("backend"), "url", "belongs to backend: postgres: remove it, or set backend")
	}
}

// HistoryBackend is the store of the history.
type HistoryBackend string

// The values of `history.backend`.
const (
	HistoryRedis    HistoryBackend = "redis"
	HistoryPostgres HistoryBackend = "postgres"
	HistoryDynamoDB HistoryBackend = "dynamodb"
	HistoryNone     HistoryBackend = "none" // no history is kept
)

// History is the section history of pools.yaml. A change of this section needs a restart. Fields
// that belong to another backend than the chosen one are zero.
type History struct {
	// redis: the server of the section redis; postgres: the database of url; dynamodb: the table; none: no
	// history is kept. One of redis, postgres, dynamodb, none. Default: redis.
	Backend HistoryBackend `yaml:"backend" oneof:"redis postgres dynamodb none"`
	// Records are kept for this time. 24h to 43800h. Without it: 168h (7 days) in redis, 2160h (90 days) in
	// postgres and dynamodb.
	Keep time.Duration `yaml:"keep" range:"24h to 43800h"`
	// The audit (which key took which token, and its report) is kept for this time: at least 24h, or 0s for none.
	// 0s to 43800h. Default: 168h.
	Audit time.Duration `yaml:"audit" range:"0s to 43800h"`
	// Address of the database, beginning with postgres://. Needed with postgres.
	URL captcha.Secret `yaml:"url"`
	// Name of the table; dynamodb only. Without it: CaptchaSolves.
	Table string `yaml:"table" form:"^[A-Za-z0-9_.-]{3,255}$ a table's name: 3 to 255 letters, digits, _, . and -"`
	// Address of a server other than AWS, such as an emulator; dynamodb only. Without it: AWS.
	Endpoint string `yaml:"endpoint"`
	// Region of the table; dynamodb only. Without it: from AWS_REGION or the configuration of AWS.
	Region string `yaml:"region" form:"^[a-z0-9-]{1,63}$ a region's name such as eu-central-1"`
	// Whether the table has an item for each order in flight, for other programs; dynamodb only. Default: true.
	ActiveItems bool `yaml:"active_items"`
}

// validate checks the section, and sets the defaults that depend on the backend.
func (h *History) validate(at *setting) {
	at.rule(h.Audit <= 0 || h.Audit >= day, "audit", "must be 0s, which is off, or a duration from 24h to 43800h")
	const alone = "must be the address alone: credentials come from the environment of AWS"
	at.check("endpoint", addressFault(h.Endpoint, alone, alone))
	h.Endpoint = strings.TrimRight(h.Endpoint, "/")
	checkPostgres(at, h.URL, h.Backend == HistoryPostgres)
	if !at.ok("backend") {
		return
	}
	keep := 90 * day
	switch h.Backend {
	case HistoryDynamoDB:
		h.Table = cmp.Or(h.Table, "CaptchaSolves")
	case HistoryRedis:
		keep = 7 * day
	case HistoryNone:
		keep, h.Audit = 0, 0
		at.check("keep", "belongs to a backend that keeps something: remove it, or set backend")
		at.check("audit", "belongs to a backend that keeps something: remove it, or set backend")
	}
	h.Keep = cmp.Or(h.Keep, keep)
	if h.Backend != HistoryDynamoDB {
		h.ActiveItems = false
		for _, key := range []string{"table", "endpoint", "region", "active_items"} {
			at.rule(at.at(key).value == "", key, "belongs to backend: dynamodb: remove it, or set backend")
		}
	}
}
