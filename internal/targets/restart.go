package targets

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
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
	var redis []string
	for address := range strings.SplitSeq(s.Redis.URL.Reveal(), ",") {
		redis = append(redis, withoutSecrets(address))
	}
	return []lastingSetting{
		{"server.listen", s.Server.Listen, s.Server.Listen},
		{"server.tls", s.Server.TLS, s.Server.TLS.Cert + " " + s.Server.TLS.Key},
		{"redis", s.Redis, fmt.Sprintf("%s %s prefix %s", strings.Join(redis, ","), s.Redis.SentinelMaster, s.Redis.Prefix)},
		{"dead_letters", s.DeadLetters, s.DeadLetters},
		{"dedup", s.Dedup, fmt.Sprintf("%s %s", s.Dedup.Backend, withoutSecrets(s.Dedup.URL.Reveal()))},
		{"history", s.History, fmt.Sprintf("%s keep %s audit %s %s %s %s %s %s", s.History.Backend, shortDuration(s.History.Keep), shortDuration(s.History.Audit),
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
	s.Server.Listen, s.Server.TLS, s.listenGiven = old.Server.Listen, old.Server.TLS, old.listenGiven
	s.Redis, s.DeadLetters, s.Dedup, s.History = old.Redis, old.DeadLetters, old.Dedup, old.History
	return remarks.sorted(), nil
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
