package targets

import (
	"strings"
	"time"

	"poold/internal/captcha"
)

const (
	shortestFallback = 50 * time.Millisecond

	// minCallbackSecret is the minimum length of a callback secret. An attacker who knows one
	// callback address can test guesses of the secret offline, so the secret must be long.
	minCallbackSecret = 16
)

// callbackRules checks the callback keys of a provider against each other and against the timeout.
func (p *providerEntry) callbackRules() {
	if unencrypted(p.CallbackURL) {
		p.firstEntry("callback_url").warn("http sends tokens and signed callback addresses unencrypted: use https")
	}
	if strings.HasSuffix(p.CallbackURL, "/callback") {
		p.firstEntry("callback_url").warn("poold appends /callback/…: give the base address only, unless a proxy in front removes the first /callback")
	}
	for _, name := range []string{"fallback_after", "callback_delay"} {
		if p.hasKey(name) && p.CallbackURL == "" && !p.hasInvalid("callback_url") {
			p.firstEntry(name).warn("is not used without callback_url")
		}
	}
	switch after := p.FallbackAfter; {
	case 0 < after && after < shortestFallback:
		p.firstEntry("fallback_after").fail("must be at least %s, or 0s for the default", shortestFallback)
	case !p.hasInvalid("fallback_after", "timeout") && after >= p.Timeout:
		p.firstEntry("fallback_after").fail("must be below timeout, or a task whose callback is lost is never polled (default timeout: %s)",
			shortDuration(defaultTimeout))
	}
}

// callbackURL parses the address at which providers reach this daemon. The address may be empty. No
// message quotes the address.
func callbackURL(e scalar) (any, string) {
	address, rule := baseAddress(e.text, "must not hold a user and password: callbacks carry a signature instead",
		"must not hold a ? or #: the path of a callback is added to it")
	if rule == "" && !isPrintable(address, '!') {
		return "", "must be printable ASCII without spaces: write other characters as %XX"
	}
	return address, rule
}

// callbackSecrets checks the callback secrets and returns the non-empty secrets.
func callbackSecrets(items []entry, secrets []captcha.Secret) (all []captcha.Secret) {
	paths := make(map[captcha.Secret]string)
	for i, item := range items {
		if !item.ok {
			continue
		}
		s := secrets[i]
		first, known := paths[s]
		switch {
		case s == "":
			item.warn("the secret is empty, so it is left out%s", item.remedy())
			continue
		case !isPrintable(s.Reveal(), ' '):
			item.fail("must be printable ASCII")
		case len(s) < minCallbackSecret:
			item.fail("must have at least %d characters: an attacker who guesses it can forge callbacks", minCallbackSecret)
		case known:
			item.fail("is the same secret as %s: remove one", first)
		default:
			paths[s] = item.path
		}
		all = append(all, s)
	}
	return all
}
