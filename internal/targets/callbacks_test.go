package targets

import (
	"strings"
	"testing"
	"time"
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
