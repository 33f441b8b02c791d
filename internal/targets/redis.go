package targets

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// embeddedRedis is the value of redis.url for the Redis inside the daemon.
const embeddedRedis = "embedded"

func (d *Redis) check(e entry) {
	if !e.hasInvalid("url") && d.URL == "" {
		e.firstEntry("url").fail("is empty: write embedded or an address%s", e.firstEntry("url").remedy())
	}
	if e.hasInvalid("url", "sentinel_master") || d.URL == "" {
		d.URL = "" // an unknown URL, so that rules about the URL report nothing
		return
	}
	addresses := strings.Split(d.URL.Reveal(), ",")
	switch {
	case d.SentinelMaster != "" && d.Embedded():
		e.firstEntry("sentinel_master").fail("needs the sentinels' addresses in redis.url, not the embedded server")
	case strings.HasPrefix(addresses[0], "unix:") && (len(addresses) > 1 || d.SentinelMaster != ""):
		e.firstEntry("url").fail("a unix socket is one server: a cluster and sentinels have redis:// or rediss:// addresses")
	case len(addresses) > 1 && d.SentinelMaster == "" && slices.ContainsFunc(addresses, namesDatabase):
		e.firstEntry("url").fail("several addresses are a cluster, which has database 0 alone: remove the number, or set sentinel_master")
	}
}

// redisURL parses one address, several addresses, the word "embedded" or an empty text. No message
// quotes an address, because it may contain a password.
func redisURL(e scalar) (any, string) {
	if e.text == "" || e.text == embeddedRedis {
		return e.text, ""
	}
	scheme := ""
	var clean []string
	for i, address := range strings.Split(e.text, ",") {
		address = strings.TrimSpace(address)
		u, rule := redisAddress(address)
		if rule != "" {
			return nil, fmt.Sprintf("address %d %s", i+1, rule)
		}
		if i > 0 && u.Scheme != scheme {
			return nil, fmt.Sprintf("address %d has another scheme than the first: all with TLS (rediss), or none", i+1)
		}
		scheme = u.Scheme
		clean = append(clean, address)
	}
	return strings.Join(clean, ","), ""
}

// redisAddress parses one address of a Redis server.
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

// namesDatabase reports whether a valid address selects a database other than 0.
func namesDatabase(address string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.ContainsFunc([]string{strings.Trim(u.Path, "/"), u.Query().Get("db")}, func(db string) bool {
		return db != "" && db != "0"
	})
}
