package targets

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// lasting is a part of the file that only a restart applies.
type lasting struct {
	key   string // the path of the key
	value any    // comparable
	text  string // the value without secrets, for people
}

// lasting lists what only a restart changes.
func (s *Set) lasting() []lasting {
	items := ""
	if s.History.Backend == HistoryDynamoDB && !s.History.ActiveItems {
		items = "without active items"
	}
	var redis []string
	for address := range strings.SplitSeq(s.Redis.URL.Reveal(), ",") {
		redis = append(redis, withoutSecrets(address))
	}
	return []lasting{
		{"server.listen", s.Server.Listen, s.Server.Listen},
		{"server.tls", s.Server.TLS, s.Server.TLS.Cert + " " + s.Server.TLS.Key},
		{"redis", s.Redis, fmt.Sprintf("%s %s prefix %s", strings.Join(redis, ","), s.Redis.SentinelMaster, s.Redis.Prefix)},
		{"dead_letters", s.DeadLetters, s.DeadLetters},
		{"dedup", s.Dedup, fmt.Sprintf("%s %s", s.Dedup.Backend, withoutSecrets(s.Dedup.URL.Reveal()))},
		{"history", s.History, fmt.Sprintf("%s keep %s audit %s %s %s %s %s %s", s.History.Backend, short(s.History.Keep), short(s.History.Audit),
			withoutSecrets(s.History.URL.Reveal()), s.History.Table, withoutSecrets(s.History.Endpoint), s.History.Region, items)},
	}
}

// OverrideListen makes the Set name this address instead of the file's. It refuses an
// address that would be open to the network without keys.
func (s *Set) OverrideListen(file, listen string) error {
	s.Server.Listen, s.listenGiven = listen, true
	if err := CheckListen(listen, len(s.Server.Keys)); err != nil {
		return Problems{{File: file, Text: "the address given by --listen or POOLD_LISTEN: " + err.Error()}}
	}
	return nil
}

// Succeed prepares s for a daemon that runs with old. Settings that only a restart changes are copied
// from old, and remarks name them. It returns an error if this mixture is invalid, although the file
// is valid.
func (s *Set) Succeed(old *Set, file string) (remarks Problems, err error) {
	inUse := old.lasting()
	for i, part := range s.lasting() {
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

// Lasting returns what only a restart changes, by the path of its key, as a text for
// people. The text leaves out users, passwords and queries, so two different
// addresses may have equal texts. An address given by --listen or POOLD_LISTEN is left out.
func (s *Set) Lasting() map[string]string {
	all := map[string]string{}
	for _, part := range s.lasting() {
		all[part.key] = strings.Join(strings.Fields(part.text), " ")
	}
	if s.listenGiven {
		delete(all, "server.listen")
	}
	return all
}

// withoutSecrets returns an address without its user, password and query. It returns "…" for an
// address that net/url cannot read.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "…"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
