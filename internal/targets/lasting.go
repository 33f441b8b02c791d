package targets

import (
	"fmt"
	"net/url"
	"strings"

	"poold/internal/captcha"
)

// Lasting is what only a restart changes, by the path of its key, as a text for people
// without user, password or query: two that are the same may differ in these. The address
// is left out where --listen or POOLD_LISTEN gives it.
func (s *Set) Lasting() map[string]string {
	items := ""
	if s.History.Backend == HistoryDynamoDB && !s.History.ActiveItems {
		items = "without active items"
	}
	all := map[string]string{
		"server.tls":   words(s.Server.TLS.Cert + " " + s.Server.TLS.Key),
		"redis":        words(fmt.Sprintf("%s %s prefix %s", withoutSecrets(s.Redis.URL), s.Redis.SentinelMaster, s.Redis.Prefix)),
		"dead_letters": s.DeadLetters,
		"dedup":        words(fmt.Sprintf("%s %s", s.Dedup.Backend, withoutSecrets(s.Dedup.URL))),
		"history": words(fmt.Sprintf("%s keep %s audit %s %s %s %s %s %s", s.History.Backend, short(s.History.Keep), short(s.History.Audit),
			withoutSecrets(s.History.URL), s.History.Table, withoutSecrets(captcha.Secret(s.History.Endpoint)), s.History.Region, items)),
	}
	if !s.listenGiven {
		all["server.listen"] = s.Server.Listen
	}
	return all
}

// words is a text with one space between what it says.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// withoutSecrets is an address, or several with commas, without what may be secret.
func withoutSecrets(addresses captcha.Secret) string {
	all := strings.Split(addresses.Reveal(), ",")
	for i, address := range all {
		u, err := url.Parse(address)
		if err != nil {
			all[i] = "…" // a valid one of a database can be no URL of Go's
			continue
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		all[i] = u.String()
	}
	return strings.Join(all, ",")
}
