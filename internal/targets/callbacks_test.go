package targets

import (
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

// withProviderKeys returns the minimal file with additional keys of the provider.
func withProviderKeys(keys string) string {
	return strings.Replace(minimal(), "key: k1", "key: k1, "+keys, 1)
}

func TestCallbackKeysFollowTheirRules(t *testing.T) {
	for _, tc := range []struct {
		keys, url       string
		fallback, delay time.Duration
		warning         string // "" = only the warning about the embedded Redis
	}{
		{"callback_url: ''", "", 0, 10 * time.Second, ""},
		{"callback_url: ", "", 0, 10 * time.Second, ""},
		{"callback_url: '${UNSET:-}'", "", 0, 10 * time.Second, ""},
		{"callback_url: 'https://pools.example.com/'", "https://pools.example.com", 0, 10 * time.Second, ""},
		{"callback_url: 'https://pools.example.com:8443/a/b', fallback_after: 50ms", "https://pools.example.com:8443/a/b", 50 * time.Millisecond, 10 * time.Second, ""},
		{"callback_url: 'http://127.0.0.1:8080', callback_delay: 24h", "http://127.0.0.1:8080", 0, 24 * time.Hour, ""},
		{"callback_url: 'http://[::1]:8080', fallback_after: 0s", "http://[::1]:8080", 0, 10 * time.Second, ""},
		{"callback_url: 'https://pools.example.com/callback/'", "https://pools.example.com/callback", 0, 10 * time.Second,
			"pools.yaml:2: providers.acme.callback_url: poold appends /callback/…: give the base address only, unless a proxy in front removes the first /callback"},
		{"callback_url: 'HTTP://pools.example.com'", "HTTP://pools.example.com", 0, 10 * time.Second,
			"pools.yaml:2: providers.acme.callback_url: http sends tokens and signed callback addresses unencrypted: use https"},
		{"callback_url: 'https://pools.example.com', fallback_after: 179s", "https://pools.example.com", 179 * time.Second, 10 * time.Second, ""},
		{"fallback_after: 1h, timeout: 2h", "", time.Hour, 10 * time.Second, "pools.yaml:2: providers.acme.fallback_after: is not used without callback_url"},
		{"callback_url: '', callback_delay: 0s", "", 0, 0, "pools.yaml:2: providers.acme.callback_delay: is not used without callback_url"},
	} {
		set := mustParse(t, withProviderKeys(tc.keys), References{})
		if p := set.Providers[0]; p.CallbackURL != tc.url || p.FallbackAfter != tc.fallback || p.CallbackDelay != tc.delay {
			t.Errorf("%s: %+v", tc.keys, p)
		}
		if tc.warning != "" && !strings.Contains(warnings(set), tc.warning+"\n") || tc.warning == "" && len(set.Warnings) != 1 {
			t.Errorf("%s: warnings\n%s\nwant %q", tc.keys, warnings(set), tc.warning)
		}
	}
}

// A simulated provider may have callbacks and prices like a real provider.
func TestSimulatedProviderKeepsCallbacksAndPrices(t *testing.T) {
	set := mustParse(t, strings.Replace(minimal(), `url: "https://solver.example.com", key: k1`,
		"api: simulated, callback_url: 'http://127.0.0.1:1/', fallback_after: 1s, callback_delay: 2s, price_per_1000: 3", 1), References{})
	p := set.Providers[0]
	if p.API != APISimulated || p.CallbackURL != "http://127.0.0.1:1" || p.FallbackAfter != time.Second || p.CallbackDelay != 2*time.Second || p.Price.HCaptcha != Costs(3) {
		t.Errorf("provider %+v", p)
	}
	if got := warnings(set); strings.Contains(got, "is not used") {
		t.Errorf("warnings\n%s", got)
	}
	// The built-in provider equals an entry that has only name and api.
	bare := mustParse(t, strings.Replace(minimal(), `url: "https://solver.example.com", key: k1`, "api: simulated", 1), References{}).Providers[0]
	built := mustParse(t, strings.Replace(minimal(), "key: k1", "key: ''", 1), References{}).Providers[0]
	if bare.Name, bare.Line, built.Line = built.Name, 0, 0; bare != built {
		t.Errorf("built in %+v, listed %+v", built, bare)
	}
}

// Parse reports all faults of a provider, except faults that follow from a reported fault.
func TestCallbackRulesReportNoFollowUps(t *testing.T) {
	_, err := Parse("pools.yaml", []byte(withProviderKeys("callback_url: nowhere, fallback_after: 1h, timeout: soon")), References{})
	want := "pools.yaml:2: providers.acme.callback_url: must be an http:// or https:// address with a host\n" +
		`pools.yaml:2: providers.acme.timeout: must be a duration from 50ms to 24h, such as 90s or 1m30s, not "soon"`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// The first secret signs new addresses, and all secrets are accepted. So a new secret comes first
// in the list, before the old secret. Empty secrets are omitted.
func TestEmptyCallbackSecretsAreLeftOut(t *testing.T) {
	const older, newer = "the-older-one-of-the-two", "the-newer-one-of-the-two"
	for secrets, want := range map[string][]captcha.Secret{
		"[" + newer + ", " + older + "]": {newer, older},
		"[]":                             nil, "": nil, "['${UNSET:-}']": nil,
	} {
		if got := mustParse(t, "server: {callback_secrets: "+secrets+"}\n"+minimal(), References{}).Server.CallbackSecrets; !slices.Equal(got, want) {
			t.Errorf("%q: %d secrets", secrets, len(got))
		}
	}
}

// A secret may have exactly 16 characters and may contain a space.
func TestShortestCallbackSecretIsAccepted(t *testing.T) {
	for secret, good := range map[captcha.Secret]bool{
		"0123456789abcde":         false,
		"0123456789abcdef":        true,
		"~ 0123456789abc !":       true,
		"äöüäöüäö":                false, // 16 bytes
		"0123456789abcdef\u00a0x": false,
	} {
		_, err := Parse("pools.yaml", []byte("server: {callback_secrets: ['${S}']}\n"+minimal()), lookupOf("S", secret.Reveal()))
		if (err == nil) != good {
			t.Errorf("%q: %v", secret.Reveal(), err)
		}
	}
}
