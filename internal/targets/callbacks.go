package targets

import (
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
)

const (
	// defaultCallbackDelay is how old the token of a callback is taken to be: longer
	// than a service that works takes to deliver one.
	defaultCallbackDelay = 10 * time.Second
	shortestFallback     = 50 * time.Millisecond

	// minCallbackSecret keeps a secret from being guessed by trying: each signature
	// in a callback's address is a chance to check a guess at home.
	minCallbackSecret = 16

	defaultDeadLetters = "./dead-letters"
)

// callbackKeys are the keys of a provider that have to do with callbacks.
func (p *rawProvider) callbackKeys() keys {
	return keys{
		"callback_url": func(v value) bool { return readCallbackURL(v, &p.CallbackURL) },
		"fallback_after": func(v value) bool {
			if !v.duration(&p.FallbackAfter, 0, longest) {
				return false
			}
			if 0 < p.FallbackAfter && p.FallbackAfter < shortestFallback {
				return v.fail("must be at least %s; 0s is as if the line were not there", shortestFallback)
			}
			return true
		},
		"callback_delay": func(v value) bool { return v.duration(&p.CallbackDelay, 0, longest) },
	}
}

// callbackRules checks them against each other and the timeout.
func (p *rawProvider) callbackRules() {
	g := p.given
	for _, name := range []string{"fallback_after", "callback_delay"} {
		if g.has(name) && p.CallbackURL == "" && !g.bad("callback_url") {
			p.r.warn(g[name].line, "%s.%s: is not used without callback_url", p.path, name)
		}
	}
	if !g.bad("fallback_after", "timeout") && p.FallbackAfter >= p.Timeout {
		p.at(g, "fallback_after").fail("must be below timeout, or a task whose callback is lost is never polled (timeout is %s unless set)",
			short(defaultTimeout))
	}
}

// readCallbackURL reads where the providers find this daemon, or nothing. No
// message quotes it.
func readCallbackURL(v value, dst *string) bool {
	switch ok := v.text(dst); {
	case !ok:
		return false
	case *dst == "":
		return true
	}
	u, rule := baseURL(*dst)
	switch {
	case rule != "":
		return v.fail("%s", rule)
	case u.User != nil:
		return v.fail("must not hold a user and password: callbacks carry a signature instead")
	case strings.ContainsAny(*dst, "?#"):
		return v.fail("must not hold a ? or #: the path of a callback is added to it")
	case strings.IndexFunc(*dst, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0:
		return v.fail("must be printable ASCII without spaces: write other characters as %%XX")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		v.r.warn(v.line, "%s: over http tokens and the addresses that accept them travel unencrypted: use https", v.path)
	}
	*dst = strings.TrimRight(*dst, "/")
	if strings.HasSuffix(*dst, "/callback") {
		v.r.warn(v.line, "%s: /callback/… is added to it: give the base address alone, unless a proxy in front takes a first /callback away", v.path)
	}
	return true
}

// callbackSecrets reads what signs the addresses of callbacks and leaves out
// what is empty.
func (r *reader) callbackSecrets(v value, dst *[]captcha.Secret) bool {
	before := len(r.problems)
	paths := make(map[captcha.Secret]string)
	ok := v.list(func(item value) {
		var s captcha.Secret
		names, ok := item.secret(&s)
		if !ok {
			return
		}
		first, known := paths[s]
		switch {
		case s == "":
			r.warn(item.line, "%s: the secret is empty, so it is left out%s", item.path, remedy(names))
			return
		case !printable(s):
			item.fail("must be printable ASCII")
		case len(s) < minCallbackSecret:
			item.fail("must be at least %d characters long: whoever guesses it can forge callbacks", minCallbackSecret)
		case known:
			item.fail("is the same secret as %s: remove one", first)
		default:
			paths[s] = item.path
		}
		*dst = append(*dst, s)
	})
	return ok && len(r.problems) == before
}

func printable(s captcha.Secret) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' || c > '~' })
}

// deadLetters reads the section `dead_letters`.
func (r *reader) deadLetters(v value, set *Set) {
	set.DeadLetters = defaultDeadLetters
	g, _ := v.section(keys{
		"dir": func(v value) bool { return v.required(&set.DeadLetters) },
	}, nil)
	set.lines.deadLetters = v.at(g, "dir").line
}
