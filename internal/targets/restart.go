package targets

import (
	"net/url"
	"regexp"
	"strings"

	"poold/internal/captcha"
)

// KeepRestartOnly prepares s to replace the previous Set of a running daemon. It copies the settings that need a
// restart from the previous Set; a new password in an address, or a change of redis.tls, needs no restart. Each remark
// is about a setting that was copied although the file has a different value. KeepRestartOnly returns an error if the
// resulting Set is invalid, although the file is valid.
func (s *Set) KeepRestartOnly(old *Set, file string) (remarks Problems, err error) {
	if rule := ListenFault(old.Server.Listen, len(s.Server.Keys)); rule != "" {
		return nil, Problems{{File: file, Text: "server.keys: the daemon still listens where it did at the start: " + rule}}
	}
	if s.Simulated() && s.Redis.Embedded() && !old.Redis.Embedded() {
		return nil, Problems{{File: file, Text: "redis: the daemon still uses the Redis that it was started with, " +
			"and no simulated token may go there: restart it, or give a provider a key"}}
	}
	redis, dedup, history := old.Redis, old.Dedup, old.History
	takePassword(&redis.URL, s.Redis.URL)
	redis.TLS = s.Redis.TLS
	takePassword(&dedup.URL, s.Dedup.URL)
	takePassword(&history.URL, s.History.URL)
	sameTLS := (s.Server.TLS.Cert == "") == (old.Server.TLS.Cert == "")
	note := func(key string, same bool) {
		if !same {
			remarks = append(remarks, Problem{File: file, Text: key +
				": changed, but needs a restart: until then the old value stays in use"})
		}
	}
	note("dead_letters", s.DeadLetters == old.DeadLetters)
	note("dedup", s.Dedup == dedup)
	note("history", s.History == history)
	note("redis", s.Redis == redis)
	note("server.listen", s.Server.Listen == old.Server.Listen)
	note("server.tls", sameTLS)
	s.Redis, s.DeadLetters, s.Dedup, s.History = redis, old.DeadLetters, dedup, history
	s.Server.Listen = old.Server.Listen
	if !sameTLS {
		s.Server.TLS = old.Server.TLS
	}
	return remarks, nil
}

// takePassword replaces the address in use by the one of the new file if only their passwords differ.
func takePassword(inUse *captcha.Secret, inFile captcha.Secret) {
	without := func(s captcha.Secret) string { return password.ReplaceAllString(s.Reveal(), "$1") }
	if without(*inUse) == without(inFile) {
		*inUse = inFile
	}
}

// password matches the first part of an address up to its password, and the password.
var password = regexp.MustCompile(`(//[^:/?#]*):[^/?#]*@`)

// Password returns the password in an address of Redis or PostgreSQL, or "". If there are several
// addresses, Password uses the first.
func Password(address captcha.Secret) captcha.Secret {
	first, _, _ := strings.Cut(address.Reveal(), ",")
	if u, err := url.Parse(first); err == nil {
		password, _ := u.User.Password()
		return captcha.Secret(password)
	}
	return ""
}
