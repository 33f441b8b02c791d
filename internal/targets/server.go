package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
)

// Short keys are unsafe, because an attacker who can reach the port can guess them. A key with
// fewer than leastKey characters is refused. A key with fewer than soundKey characters causes a
// warning.
const (
	leastKey = 8
	soundKey = 16
)

// newKey is the remedy in messages about weak keys.
const newKey = "make one with `openssl rand -hex 16`"

var errListenForm = errors.New("must be host:port, such as 127.0.0.1:8080 or :8080")

var errOpenWithoutKeys = errors.New("without server.keys the daemon listens on loopback addresses only, " +
	"because any client that reaches the port could take tokens and spend money: " +
	"listen on 127.0.0.1 or [::1], or give server.keys an entry whose key is not empty")

// CheckListen returns an error if a daemon with the given number of usable server keys must not
// listen on an address. With keys, any host:port is allowed; without keys, only a loopback address.
func CheckListen(listen string, keys int) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return errListenForm
	}
	if n, err := strconv.Atoi(port); err != nil || !digits(port) || n > 65535 {
		return errListenForm
	}
	if keys == 0 && !isLoopback(host) {
		return errOpenWithoutKeys
	}
	return nil
}

// isLoopback reports whether a host is reachable only from this machine. It returns false for an
// empty host, which means all addresses of the machine.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// check checks the section. The method `check` must run after checkTargets, because server keys refer
// to targets.
func (s *serverSection) check(e entry, set *Set) {
	s.TLS.check(e.firstEntry("tls"))
	s.CallbackSecrets = callbackSecrets(e.firstEntry("callback_secrets").items, s.CallbackSecrets)
	valid := s.checkKeys(e.firstEntry("keys"), set.Targets) && !e.hasInvalid("keys")
	count := len(s.Keys)
	if !valid {
		count++ // an invalid key counts too, so that the key is reported, but not also the address
	}
	if !e.hasInvalid("listen") {
		if err := CheckListen(s.Listen, count); err != nil {
			e.firstEntry("listen").fail("%v", err)
		}
	}
	set.Server = s.Server
}

// checkKeys checks the server keys and omits the entries whose key is empty. It reports whether all
// entries are valid.
func (s *serverSection) checkKeys(e entry, targets []Target) bool {
	before := len(e.r.problems)
	byName, byHash := make(map[string]*rawKey), make(map[[sha256.Size]byte]int)
	for i, item := range e.items {
		k := rawKey{&s.Entries[i], item, false}
		if item.read {
			k.hashKey()
		}
		k.checkCaller(byName)
		if k.digest {
			if line := byHash[k.SHA256]; line > 0 {
				k.fail("is the same key as in line %d: each caller needs a different key", line)
			}
			byHash[k.SHA256] = k.line
			s.Keys = append(s.Keys, k.Key)
			k.warnGlobs(targets)
			k.warnLength()
		}
	}
	return len(e.r.problems) == before
}

// rawKey is one entry of server.keys, with its positions in the file.
type rawKey struct {
	*keyEntry
	entry
	digest bool // whether SHA256 is set; false if the key is empty or invalid
}

// checkCaller reports a problem if an earlier entry has the same name but other rights. Entries with
// one name are the keys of one caller.
func (k *rawKey) checkCaller(byName map[string]*rawKey) {
	first, known := byName[k.Name]
	switch {
	case k.Name == "" || k.hasInvalid("scopes", "targets", "rate"):
	case !known:
		byName[k.Name] = k
	case !slices.Equal(first.Scopes, k.Scopes) || !slices.Equal(first.Targets, k.Targets) || first.Rate != k.Rate:
		k.fail("has the same name as the key in line %d, but other scopes, targets or rate: entries with one name are keys of one caller, so make these equal", first.line)
	}
}

// hashKey checks the entry's key and replaces the key by its digest.
func (k *rawKey) hashKey() {
	bearer, hash := k.Bearer, k.Hash
	switch at := k.firstEntry("key", "key_sha256"); {
	case k.hasInvalid("key", "key_sha256"):
	case k.hasKey("key") == k.hasKey("key_sha256"):
		k.fail("needs either key or key_sha256")
	case bearer == "" && hash == "":
		k.r.warnOfDemo(at.line, "%s: the key is empty, so this entry is left out%s", k.path, at.remedy())
	case k.hasKey("key"):
		if !isPrintable(bearer.Reveal(), '!') {
			at.fail("must be printable ASCII without spaces, or no header can carry it")
			return
		}
		if len(bearer) < leastKey {
			at.fail("must be at least %d characters long, or it can be guessed: %s", leastKey, newKey)
			return
		}
		if len(bearer) < soundKey {
			at.warn("is shorter than %d characters and may be guessed: %s", soundKey, newKey)
		}
		k.SHA256, k.digest = sha256.Sum256([]byte(bearer)), true
	default:
		sum, err := hex.DecodeString(hash.Reveal())
		if err != nil || len(sum) != sha256.Size {
			at.fail("must be the SHA-256 of the key as 64 hex digits")
			return
		}
		k.SHA256, k.digest = [sha256.Size]byte(sum), true
		// The hash of the empty text would accept callers with an empty bearer token.
		if k.SHA256 == sha256.Sum256(nil) {
			k.digest = at.fail("is the hash of an empty key")
		}
	}
}

// clientKey is the length of keys that clients of solving services require.
const clientKey = 32

// warnLength warns about a key that clients of solving services may refuse because of its length.
// It warns only if the key has all scopes that such a client needs.
func (k *rawKey) warnLength() {
	if k.hasKey("key") && len(k.Bearer) != clientKey && slices.Contains(k.Scopes, ScopeSolve) {
		k.firstEntry("key").warn("does not have %d characters: the clients of solving services may refuse to send it to the compatible endpoints", clientKey)
	}
}

// glob parses a pattern of names of targets.
func glob(e scalar) (any, string) {
	if _, err := path.Match(e.text, ""); err != nil || e.text == "" {
		return nil, `must be a target's name or a pattern such as "staging-*"` + e.notText()
	}
	return e.text, ""
}

// warnGlobs warns about patterns that match no target. Such patterns are usually mistakes. They are
// allowed because a matching target may be added later.
func (k *rawKey) warnGlobs(targets []Target) {
	for i, glob := range k.Targets {
		used := slices.ContainsFunc(targets, func(t Target) bool {
			ok, _ := path.Match(glob, t.Name) // no error is possible, because the pattern is already checked
			return ok
		})
		if !used {
			k.r.warn(k.firstEntry("targets").line, "%s.targets[%d]: no target matches this", k.path, i)
		}
	}
}
