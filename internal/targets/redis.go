package targets

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// embeddedRedis is the URL that stands for the server inside the daemon.
const embeddedRedis = "embedded"

// keyPrefix has no braces: they would take over the hash tags that keep the keys
// of one identity in one slot of a cluster.
var keyPrefix = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$`)

// redis reads the section `redis`.
func (r *reader) redis(v value, set *Set) {
	d := &set.Redis
	d.URL, d.Prefix = embeddedRedis, "captcha"
	g, _ := v.section(keys{
		"url":             func(v value) bool { return readRedisURL(v, &d.URL) },
		"sentinel_master": func(v value) bool { return v.text(&d.SentinelMaster) },
		"prefix": func(v value) bool {
			return v.matching(&d.Prefix, keyPrefix, "1 to 63 letters, digits, ., _, : and -, beginning with a letter or digit")
		},
	}, nil)
	set.lines.redis = v.at(g, "url").line
	if g.bad("url", "sentinel_master") {
		set.Redis.URL = "" // unknown: rules that depend on it stay silent
		return
	}
	addresses := strings.Split(d.URL.Reveal(), ",")
	switch {
	case d.SentinelMaster != "" && d.Embedded():
		v.at(g, "sentinel_master").fail("needs the sentinels' addresses in redis.url, not the embedded server")
	case strings.HasPrefix(addresses[0], "unix:") && (len(addresses) > 1 || d.SentinelMaster != ""):
		v.at(g, "url").fail("a unix socket is one server: a cluster and sentinels have redis:// or rediss:// addresses")
	case len(addresses) > 1 && d.SentinelMaster == "" && slices.ContainsFunc(addresses, namesDatabase):
		v.at(g, "url").fail("several addresses are a cluster, which has database 0 alone: remove the number, or set sentinel_master")
	}
}

// readRedisURL reads one address or several. No message quotes it: it may hold a
// password.
func readRedisURL(v value, dst *captcha.Secret) bool {
	names, ok := v.secret(dst)
	switch {
	case !ok:
		return false
	case *dst == "":
		return v.fail("is empty: write embedded or an address%s", remedy(names))
	case *dst == embeddedRedis:
		return true
	}
	scheme := ""
	var clean []string
	for i, address := range strings.Split(dst.Reveal(), ",") {
		address = strings.TrimSpace(address)
		u, rule := redisAddress(address)
		if rule != "" {
			return v.fail("address %d %s", i+1, rule)
		}
		if i > 0 && u.Scheme != scheme {
			return v.fail("address %d has another scheme than the first: all with TLS (rediss), or none", i+1)
		}
		scheme = u.Scheme
		clean = append(clean, address)
	}
	*dst = captcha.Secret(strings.Join(clean, ","))
	return true
}

// redisAddress takes one address apart, or says what is wrong with it.
func redisAddress(address string) (u *url.URL, rule string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil, "is empty: look for a comma too many"
	case err != nil:
		return nil, "is not a URL: begin with redis://, rediss:// or unix:// and write special characters of a password as %XX"
	case u.Scheme == "unix":
		if u.Path == "" {
			return nil, "needs the path of the socket, such as unix:///run/redis.sock"
		}
		return u, ""
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, "must be redis://, rediss:// or unix://, or the one word embedded"
	case u.Hostname() == "":
		return nil, "names no host: write redis://HOST:6379"
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if n, err := strconv.Atoi(db); err != nil || n < 0 {
			return nil, "ends in something that is not the number of a database"
		}
	}
	return u, ""
}

// namesDatabase reports whether a valid address chooses a database other than 0.
func namesDatabase(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	db := strings.Trim(u.Path, "/")
	return db != "" && db != "0" || u.Query().Get("db") != "" && u.Query().Get("db") != "0"
}
