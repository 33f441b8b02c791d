package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// defaultListen is where the daemon listens when nobody says otherwise.
const defaultListen = "127.0.0.1:8080"

// A key can be guessed by whoever reaches the port. What is shorter than leastKey
// can be tried out, and what is shorter than soundKey is worth a warning.
const (
	leastKey = 8
	soundKey = 16
)

// newKey makes a key that nobody guesses.
const newKey = "make one with `openssl rand -hex 16`"

var errListenForm = errors.New("must be host:port, such as 127.0.0.1:8080 or :8080")

var errOpenWithoutKeys = errors.New("without server.keys only a loopback address may be listened on, " +
	"because whoever reaches the port could take tokens and spend money: " +
	"listen on 127.0.0.1 or [::1], or give server.keys an entry whose key is not empty")

// CheckListen says whether an address may be listened on by a daemon with so
// many usable server keys: any host:port with keys, a loopback one without.
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

// isLoopback reports whether a host can be reached from this machine alone. An
// empty host is every address that there is.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// server reads the section `server`. It comes last, because keys name targets.
func (r *reader) server(v value, set *Set) {
	s := &set.Server
	s.Listen = defaultListen
	g, _ := v.section(keys{
		"listen":           func(v value) bool { return v.required(&s.Listen) },
		"tls":              func(v value) bool { return r.tls(v, &s.TLS) },
		"keys":             func(v value) bool { return r.serverKeys(v, set) },
		"callback_secrets": func(v value) bool { return r.callbackSecrets(v, &s.CallbackSecrets) },
	}, nil)
	set.lines.listen, set.lines.tls = g["listen"].line, g["tls"].line

	count := len(s.Keys)
	if g.bad("keys") {
		count++ // a key that must be mended first is no reason to complain here
	}
	if !g.bad("listen") {
		if err := CheckListen(s.Listen, count); err != nil {
			v.at(g, "listen").fail("%v", err)
		}
	}
}

// tls reads two file names. Whether the files are there is seen at the start.
func (r *reader) tls(v value, dst *TLS) bool {
	g, ok := v.section(keys{
		"cert": func(v value) bool { return v.text(&dst.Cert) },
		"key":  func(v value) bool { return v.text(&dst.Key) },
	}, nil)
	if ok && !g.bad("cert", "key") && (dst.Cert == "") != (dst.Key == "") {
		return v.fail("cert and key go together: give both files, or neither")
	}
	return ok
}

// keyName is what logs call a caller.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// rawKey is one entry of server.keys as it was read.
type rawKey struct {
	Key
	value
	given  given
	digest bool // SHA256 is known; else the key is empty or bad
}

// serverKeys reads the list of callers and leaves out those whose key is empty.
func (r *reader) serverKeys(v value, set *Set) bool {
	before := len(r.problems)
	byName, byHash := make(map[string]int), make(map[[sha256.Size]byte]int)
	ok := v.list(func(item value) {
		k := r.serverKey(item)
		if line := byName[k.Name]; line > 0 {
			k.fail("has the name of the key in line %d: give each its own", line)
		} else if k.Name != "" {
			byName[k.Name] = k.line
		}
		if k.digest {
			if line := byHash[k.SHA256]; line > 0 {
				k.fail("is the same key as in line %d: give each caller its own", line)
			}
			byHash[k.SHA256] = k.line
			set.Server.Keys = append(set.Server.Keys, k.Key)
			k.warnGlobs(set.Targets)
		}
	})
	return ok && len(r.problems) == before
}

// serverKey reads one caller.
func (r *reader) serverKey(v value) rawKey {
	v = v.named("server.keys")
	k := rawKey{value: v}
	var bearer, hash captcha.Secret
	var names []string
	secretTo := func(dst *captcha.Secret) func(value) bool {
		return func(v value) (ok bool) {
			names, ok = v.secret(dst)
			return ok
		}
	}
	scopes := []string{}
	var ok bool
	k.given, ok = v.section(keys{
		"name": func(v value) bool {
			return v.matching(&k.Name, keyName, "1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit")
		},
		"key":        secretTo(&bearer),
		"key_sha256": secretTo(&hash),
		"scopes":     func(v value) bool { return v.words(&scopes, checkScope) },
		"targets":    func(v value) bool { return v.words(&k.Targets, checkGlob) },
		"rate":       func(v value) bool { return v.rate(&k.Rate) },
	}, nil)
	if !ok {
		return k
	}
	if k.given.bad("name") {
		k.Name = ""
	}
	k.missing(k.given, "name", "scopes")
	for _, scope := range scopes {
		k.Scopes = append(k.Scopes, Scope(scope))
	}
	k.credential(bearer, hash, names)
	return k
}

// credential turns the entry's key into the digest that is kept of it.
func (k *rawKey) credential(bearer, hash captcha.Secret, names []string) {
	switch has := k.given.has; {
	case k.given.bad("key", "key_sha256"):
	case has("key") == has("key_sha256"):
		k.fail("needs key or key_sha256, and not both")
	case bearer == "" && hash == "":
		line := max(k.given["key"].line, k.given["key_sha256"].line)
		k.r.warn(line, "%s: the key is empty, so this entry is left out%s", k.path, remedy(names))
	case has("key"):
		if strings.IndexFunc(bearer.Reveal(), func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
			k.at(k.given, "key").fail("must be printable ASCII without spaces, or no header can carry it")
			return
		}
		if len(bearer) < leastKey {
			k.at(k.given, "key").fail("must be at least %d characters long, or it can be guessed: %s", leastKey, newKey)
			return
		}
		if len(bearer) < soundKey {
			k.r.warn(k.given["key"].line, "%s.key: is shorter than %d characters and may be guessed: %s", k.path, soundKey, newKey)
		}
		k.SHA256, k.digest = sha256.Sum256([]byte(bearer)), true
	default:
		sum, err := hex.DecodeString(hash.Reveal())
		if err != nil || len(sum) != sha256.Size {
			k.at(k.given, "key_sha256").fail("must be the SHA-256 of the key as 64 hex digits")
			return
		}
		k.SHA256, k.digest = [sha256.Size]byte(sum), true
		// The hash of nothing would let an empty bearer in.
		if k.SHA256 == sha256.Sum256(nil) {
			k.digest = k.at(k.given, "key_sha256").fail("is the hash of an empty key")
		}
	}
}

// remedy names the variables that would fill an empty key.
func remedy(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": set " + orList(names)
}

func scopeNames() []string {
	return []string{string(ScopeToken), string(ScopeSolve), string(ScopeStatus), string(ScopeAdmin)}
}

func checkScope(word string) string {
	if slices.Contains(scopeNames(), word) {
		return ""
	}
	return "a scope must be " + orList(scopeNames())
}

func checkGlob(word string) string {
	if _, err := path.Match(word, ""); err != nil || word == "" {
		return `must be a target's name or a pattern such as "staging-*"`
	}
	return ""
}

// warnGlobs tells of patterns that no target matches: usually a slip, and
// allowed because targets come and go.
func (k *rawKey) warnGlobs(targets []Target) {
	for i, glob := range k.Targets {
		used := slices.ContainsFunc(targets, func(t Target) bool {
			ok, err := path.Match(glob, t.Name)
			return ok && err == nil
		})
		if !used {
			k.r.warn(k.given["targets"].line, "%s.targets[%d]: no target matches this", k.path, i)
		}
	}
}
