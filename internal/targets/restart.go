package targets

import (
	"fmt"
	"net/url"
	"strings"

	"poold/internal/captcha"
)

// OverrideListen replaces the listen address of the file. It returns an error if the daemon would
// be open to the network without keys.
func (s *Set) OverrideListen(file, listen string) error {
	s.Server.Listen, s.listenGiven = listen, true
	if err := CheckListen(listen, len(s.Server.Keys)); err != nil {
		return Problems{{File: file, Text: "the address given by --listen or POOLD_LISTEN: " + err.Error()}}
	}
	return nil
}

// KeepRestartOnly prepares s to replace the previous Set of a running daemon. It copies the settings
// that need a restart from the previous Set; a password in an address and redis.tls need none. Each remark is about a
// setting that was copied although the file has a different value. KeepRestartOnly returns an error if
// the resulting Set is invalid, although the file is valid.
func (s *Set) KeepRestartOnly(old *Set, file string) (remarks Problems, err error) {
	if err := CheckListen(old.Server.Listen, len(s.Server.Keys)); err != nil {
		return nil, Problems{{File: file, Text: "server.keys: the daemon still listens where it did at the start: " + err.Error()}}
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
	for _, c := range []struct {
		key  string
		same bool
	}{
		{"dead_letters", s.DeadLetters == old.DeadLetters}, {"dedup", s.Dedup == dedup}, {"history", s.History == history}, {"redis", s.Redis == redis},
		{"server.listen", s.Server.Listen == old.Server.Listen || old.listenGiven}, {"server.tls", sameTLS},
	} {
		if !c.same {
			remarks = append(remarks, Problem{File: file, Text: c.key + ": changed, but needs a restart: until then the old value stays in use"})
		}
	}
	s.Redis, s.DeadLetters, s.Dedup, s.History = redis, old.DeadLetters, dedup, history
	s.Server.Listen, s.listenGiven = old.Server.Listen, old.listenGiven
	if !sameTLS {
		s.Server.TLS = old.Server.TLS
	}
	return remarks, nil
}

// takePassword replaces an address by one that differs from it only by passwords.
func takePassword(inUse *captcha.Secret, inFile captcha.Secret) {
	if withoutPassword(*inUse) == withoutPassword(inFile) {
		*inUse = inFile
	}
}

// withoutPassword removes the passwords from one or several addresses.
func withoutPassword(addresses captcha.Secret) string {
	all := strings.Split(addresses.Reveal(), ",")
	for i, address := range all {
		if u, err := url.Parse(address); err == nil && u.User != nil {
			u.User = url.User(u.User.Username())
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}

// RestartNeeded returns the settings whose changes need a restart, as a map from paths of keys to texts
// for people. The texts omit users, passwords and queries, so two different addresses may have
// equal texts. The map omits a listen address that comes from --listen or POOLD_LISTEN.
func (s *Set) RestartNeeded() map[string]string {
	redis := strings.Split(s.Redis.URL.Reveal(), ",")
	for i, address := range redis {
		redis[i] = withoutSecrets(address)
	}
	h := s.History
	all := map[string]string{
		"server.listen": s.Server.Listen, "server.tls": "", "dead_letters": s.DeadLetters,
		"redis": fmt.Sprintf("%s %s %s prefix %s", strings.Join(redis, ","), s.Redis.SentinelMaster, s.Redis.SentinelUser, s.Redis.Prefix),
		"dedup": fmt.Sprintf("%s %s", s.Dedup.Backend, withoutSecrets(s.Dedup.URL.Reveal())),
		"history": fmt.Sprintf("%s keep %s audit %s %s %s %s %s", h.Backend, shortDuration(h.Keep), shortDuration(h.Audit),
			withoutSecrets(h.URL.Reveal()), h.Table, withoutSecrets(h.Endpoint), h.Region),
	}
	if h.Backend == HistoryDynamoDB && !h.ActiveItems {
		all["history"] += " without active items"
	}
	if s.Server.TLS.Cert != "" {
		all["server.tls"] = "on"
	}
	if s.listenGiven {
		delete(all, "server.listen")
	}
	for key, text := range all {
		all[key] = strings.Join(strings.Fields(text), " ")
	}
	return all
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
