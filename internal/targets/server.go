package targets

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Short keys are unsafe, because an attacker who can reach the port can guess them. An attacker who
// knows one callback address can test guesses of a callback secret offline.
const (
	leastKey          = 8  // shorter keys are refused
	soundKey          = 16 // shorter keys cause a warning
	clientKey         = 32 // the length that clients of solving services require
	minCallbackSecret = 16
	newKey            = "make one with `openssl rand -hex 16`"
)

const (
	badListen       = "must be host:port, such as 127.0.0.1:8080 or :8080"
	openWithoutKeys = "without server.keys the daemon listens on loopback addresses only, " +
		"because any client that reaches the port could take tokens and spend money: " +
		"listen on 127.0.0.1 or [::1], or give server.keys an entry whose key is not empty"
)

// ListenFault returns why a daemon with the given number of usable server keys must not listen on an
// address. With keys, any host:port is allowed; without keys, only a loopback address.
func ListenFault(listen string, keys int) string {
	host, port, err := net.SplitHostPort(listen)
	_, invalid := strconv.ParseUint(port, 10, 16)
	return first(check{err != nil || invalid != nil, badListen}, check{keys == 0 && !IsLoopback(host), openWithoutKeys})
}

// IsLoopback reports whether a host is reachable only from this machine. It returns false for an
// empty host, which means all addresses of the machine.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// validate checks the certificate, and reads it.
func (t *TLS) validate(at *setting) {
	at.obey(check{(t.Cert == "") != (t.Key == ""), "cert and key go together: give both files, or neither"})
	if at.bad || t.Cert == "" || at.r.refs.File == nil {
		return
	}
	cert, problem := at.r.refs.content(t.Cert, false)
	at.check("cert", problem)
	key, problem := at.r.refs.content(t.Key, false)
	at.check("key", problem)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil && !at.bad {
		at.fail("the certificate and the key cannot be used: %s: write a certificate and its key, both as PEM",
			strings.TrimPrefix(err.Error(), "tls: "))
	}
	t.Certificate = &pair
}

// validate checks the client certificate and the issuers, and reads them.
func (t *RedisTLS) validate(at *setting) {
	client := TLS{Cert: t.Cert, Key: t.Key}
	client.validate(at)
	t.Certificate = client.Certificate
	if at.bad || t.CA == "" || at.r.refs.File == nil {
		return
	}
	text, problem := at.r.refs.content(t.CA, false)
	at.check("ca", problem)
	at.rule(x509.NewCertPool().AppendCertsFromPEM([]byte(text)), "ca", "the file has no certificate as PEM")
	t.Issuers = text
}

func (s *Server) validate(at *setting) {
	all := s.CallbackSecrets
	s.CallbackSecrets = nil
	for i, item := range at.at("callback_secrets").items {
		secret := all[i].Reveal()
		if !item.bad && secret == "" {
			item.warn("the secret is empty, so it is left out%s", toSet(item.names))
		} else if !item.bad && item.obey(
			check{!isPrintable(secret, ' '), "must be printable ASCII"},
			check{len(secret) < minCallbackSecret,
				"must have at least 16 characters: an attacker who guesses it can forge callbacks"},
		) {
			s.CallbackSecrets = append(s.CallbackSecrets, all[i])
		}
	}
}

// validate checks the webhook. No message quotes its address, because it may contain a password.
func (n *Notify) validate(at *setting) {
	at.require("url")
	at.check("url", addressFault(n.URL.Reveal(), "must not hold a user and password", ""))
	at.warnIf(unencrypted(n.URL.Reveal()), "url", "http sends events unencrypted: use https")
	at.warnIf(n.URL == "", "url", "is empty, so nothing is posted%s", toSet(at.at("url").names))
	at.warnIf(n.Secret == "", "secret", "is empty, so nothing is signed%s", toSet(at.at("secret").names))
}

func (k *Key) validate(at *setting) {
	at.require("name", "scopes")
	for i, item := range at.at("targets").items {
		if _, err := path.Match(k.Targets[i], ""); err != nil && !item.bad {
			item.fail(`must be a target's name or a pattern such as "staging-*"%s`, item.not())
		}
	}
	if slices.Contains(k.Targets, "*") {
		k.Targets = nil
	}
	k.hash(at)
	k.Bearer, k.Hash = "", ""
}

// hash checks the entry's key and sets its digest. An entry whose key is empty has no digest.
func (k *Key) hash(at *setting) {
	switch given := at.at("key", "key_sha256"); {
	case !at.ok("key", "key_sha256"):
	case at.has("key") == at.has("key_sha256"):
		at.fail("needs either key or key_sha256")
	case k.Bearer == "" && k.Hash == "":
		empty := *given
		empty.path = at.path
		empty.warn("the key is empty, so this entry is left out%s", toSet(given.names))
	case at.has("key_sha256"):
		sum, err := hex.DecodeString(k.Hash.Reveal())
		copy(k.SHA256[:], sum)
		given.obey(
			check{err != nil || len(sum) != sha256.Size, "must be the SHA-256 of the key as 64 hex digits"},
			// this hash would accept callers with an empty bearer token
			check{k.SHA256 == sha256.Sum256(nil), "is the hash of an empty key"},
		)
	case given.obey(
		check{!isPrintable(k.Bearer.Reveal(), '!'), "must be printable ASCII without spaces, or no header can carry it"},
		check{len(k.Bearer) < leastKey, "must be at least 8 characters long, or it can be guessed: " + newKey},
	):
		at.warnIf(len(k.Bearer) < soundKey, "key", "is shorter than %d characters and may be guessed: %s", soundKey, newKey)
		at.warnIf(len(k.Bearer) != clientKey && slices.Contains(k.Scopes, ScopeSolve), "key",
			"does not have %d characters: the clients of solving services may refuse to send it to the compatible endpoints",
			clientKey)
		k.SHA256 = sha256.Sum256([]byte(k.Bearer))
	}
}

// checkKeys compares the server keys with each other and with the targets, and keeps only the keys that are not empty.
func (s *Server) checkKeys(at *setting, set *Set) {
	entries, items, valid := s.Keys, at.at("keys").items, !at.at("keys").bad
	s.Keys = nil
	for i, item := range items {
		k := entries[i]
		first := slices.IndexFunc(entries, func(o Key) bool { return o.Name == k.Name })
		f := entries[first]
		if valid && (!slices.Equal(f.Scopes, k.Scopes) || !slices.Equal(f.Targets, k.Targets) || f.Rate != k.Rate ||
			f.Budget != k.Budget) {
			item.fail("has the same name as the key in line %d, but other scopes, targets, rate or budget: "+
				"entries with one name are keys of one caller, so make these equal", items[first].line)
		}
		if k.SHA256 == ([sha256.Size]byte{}) {
			continue
		}
		if same := slices.IndexFunc(entries, func(o Key) bool { return o.SHA256 == k.SHA256 }); same < i {
			item.fail("is the same key as in line %d: each caller needs a different key", items[same].line)
		}
		s.Keys = append(s.Keys, k)
		set.checkPrices(item.at("budget"), k.Budget, true, func(t *Target) bool { return k.MayUse(t.Name) })
		for j, glob := range k.Targets {
			// A pattern that matches no target is usually a mistake, but such a target may be added later.
			if !slices.ContainsFunc(set.Targets, func(t Target) bool { return fits(glob, t.Name) }) {
				item.at("targets").items[j].warn("no target matches this")
			}
		}
	}
	count := len(s.Keys)
	if at.at("keys").bad {
		count++ // an invalid key counts too, so that the key is reported, but not also the address
	}
	s.Listen = cmp.Or(at.r.refs.Listen, s.Listen)
	rule := ListenFault(s.Listen, count)
	at.rule(rule == "", "listen", "%s", rule)
}
