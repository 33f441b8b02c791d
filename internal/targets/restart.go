package targets

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"poold/internal/captcha"
)

// lastingSetting is a setting whose change takes effect only after a restart.
type lastingSetting struct {
	key   string // the path of its key
	value any    // the setting, of a comparable type
	text  string // the setting as a text for people, without secrets
}

// lastingSettings lists the settings whose changes need a restart.
func (s *Set) lastingSettings() []lastingSetting {
	items := ""
	if s.History.Backend == HistoryDynamoDB && !s.History.ActiveItems {
		items = "without active items"
	}
	var addresses []string
	for address := range strings.SplitSeq(s.Redis.URL.Reveal(), ",") {
		addresses = append(addresses, withoutSecrets(address))
	}
	encrypted := ""
	if s.Server.TLS.Cert != "" {
		encrypted = "on"
	}
	redis, dedup, history := s.Redis, s.Dedup, s.History
	redis.URL, dedup.URL, history.URL = withoutPassword(redis.URL), withoutPassword(dedup.URL), withoutPassword(history.URL)
	return []lastingSetting{
		{"server.listen", s.Server.Listen, s.Server.Listen},
		{"server.tls", encrypted, encrypted},
		{"redis", redis, fmt.Sprintf("%s %s prefix %s", strings.Join(addresses, ","), s.Redis.SentinelMaster, s.Redis.Prefix)},
		{"dead_letters", s.DeadLetters, s.DeadLetters},
		{"dedup", dedup, fmt.Sprintf("%s %s", s.Dedup.Backend, withoutSecrets(s.Dedup.URL.Reveal()))},
		{"history", history, fmt.Sprintf("%s keep %s audit %s %s %s %s %s %s", s.History.Backend, shortDuration(s.History.Keep), shortDuration(s.History.Audit),
			withoutSecrets(s.History.URL.Reveal()), s.History.Table, withoutSecrets(s.History.Endpoint), s.History.Region, items)},
	}
}

// OverrideListen replaces the listen address of the file. It returns an error if the daemon would
// be open to the network without keys.
func (s *Set) OverrideListen(file, listen string) error {
	s.Server.Listen, s.listenGiven = listen, true
	if err := CheckListen(listen, len(s.Server.Keys)); err != nil {
		return Problems{{File: file, Text: "the address given by --listen or POOLD_LISTEN: " + err.Error()}}
	}
	return nil
}

// Succeed prepares s to replace the previous Set of a running daemon. It copies the settings that
// need a restart from the previous Set. Each remark is about a setting that was copied although the
// file has a different value. Succeed returns an error if the resulting Set is invalid, although
// the file is valid.
func (s *Set) Succeed(old *Set, file string) (remarks Problems, err error) {
	inUse := old.lastingSettings()
	for i, part := range s.lastingSettings() {
		given := part.key == "server.listen" && old.listenGiven
		if part.value != inUse[i].value && !given {
			remarks = append(remarks, Problem{File: file, Line: s.lines[part.key], Text: part.key + ": changed, but needs a restart: until then the old value stays in use"})
		}
	}
	if err := CheckListen(old.Server.Listen, len(s.Server.Keys)); err != nil {
		return nil, Problems{{File: file, Line: s.lines["server.listen"], Text: "server.keys: the daemon still listens where it did at the start: " + err.Error()}}
	}
	simulated := slices.ContainsFunc(s.Providers, func(p Provider) bool { return p.API == APISimulated })
	if simulated && s.Redis.Embedded() && !old.Redis.Embedded() {
		return nil, Problems{{File: file, Line: s.lines["redis"], Text: "redis: the daemon still uses the Redis that it was started with, " +
			"and no simulated token may go there: restart it, or give a provider a key"}}
	}
	s.keep(old)
	return remarks.sorted(), nil
}

// keep copies the settings that need a restart from the previous Set. New passwords stay if the
// address is otherwise the same.
func (s *Set) keep(old *Set) {
	redis, dedup, history := s.Redis.URL, s.Dedup.URL, s.History.URL
	s.Redis, s.DeadLetters, s.Dedup, s.History = old.Redis, old.DeadLetters, old.Dedup, old.History
	s.Redis.URL = newPassword(old.Redis.URL, redis)
	s.Dedup.URL = newPassword(old.Dedup.URL, dedup)
	s.History.URL = newPassword(old.History.URL, history)
	s.Server.Listen, s.listenGiven = old.Server.Listen, old.listenGiven
	if (s.Server.TLS.Cert == "") != (old.Server.TLS.Cert == "") {
		s.Server.TLS = old.Server.TLS
	}
}

// Lasting returns the settings whose changes need a restart, as a map from paths of keys to texts
// for people. The texts omit users, passwords and queries, so two different addresses may have
// equal texts. The map omits a listen address that comes from --listen or POOLD_LISTEN.
func (s *Set) Lasting() map[string]string {
	all := map[string]string{}
	for _, part := range s.lastingSettings() {
		all[part.key] = strings.Join(strings.Fields(part.text), " ")
	}
	if s.listenGiven {
		delete(all, "server.listen")
	}
	return all
}

// newPassword returns the address in the file if it differs from the one in use only by passwords, and
// otherwise the one in use.
func newPassword(inUse, inFile captcha.Secret) captcha.Secret {
	if withoutPassword(inUse) == withoutPassword(inFile) {
		return inFile
	}
	return inUse
}

// Password returns the password in an address of Redis or PostgreSQL, or "". If there are several
// addresses, Password uses the first.
func Password(address captcha.Secret) captcha.Secret {
	first, _, _ := strings.Cut(address.Reveal(), ",")
	u, err := url.Parse(first)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return captcha.Secret(password)
}

// withoutPassword removes the passwords from one or several addresses.
func withoutPassword(addresses captcha.Secret) captcha.Secret {
	all := strings.Split(addresses.Reveal(), ",")
	for i, address := range all {
		if u, err := url.Parse(address); err == nil && u.User != nil {
			u.User = url.User(u.User.Username())
			all[i] = u.String()
		}
	}
	return captcha.Secret(strings.Join(all, ","))
}

// withoutSecrets returns an address without its user, password and query. It returns "…" for an
// address that net/url cannot parse.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "…"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
