package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The time flags of `poold token` accept the same values as the API: a duration, or a number of
// seconds.
func TestTokenFlagsReadNumbersAsSeconds(t *testing.T) {
	var sent string
	withTransport(t, func(r *http.Request) (*http.Response, error) {
		sent = r.URL.RawQuery
		return answer(http.StatusOK, body("token\n")), nil
	})
	for args, want := range map[string]string{
		"--wait 5": "wait=5s", "--wait 1m": "wait=1m0s", "--wait 0": "wait=0s", "--min-ttl 1.5 --wait 2.5s": "min_ttl=1.5s&wait=2.5s",
	} {
		if _, err := runOn(t.Context(), newToken, strings.Fields("login "+args)...); err != nil || sent != want {
			t.Errorf("%s: sent %q, want %q (%v)", args, sent, want, err)
		}
	}
	for _, wrong := range []string{"", "5x", ".", "five"} {
		root := func(c *Console) *cobra.Command {
			command := newToken(c)
			command.SetFlagErrorFunc(flagError)
			return command
		}
		_, err := runOn(t.Context(), root, "login", "--wait", wrong)
		if err == nil || !strings.Contains(err.Error(), "for flag --wait: must be a duration such as 20s; a number alone is seconds") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// If a command sends plain HTTP to a TLS port, its error says which address to use. Other responses
// with 400 are shown unchanged.
func TestPlainRequestToATLSPort(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	plain := strings.Replace(server.URL, "https:", "http:", 1)
	_, err := runOn(t.Context(), newReload, "--url", plain)
	if want := "the daemon expects TLS at this address: use --url " + server.URL + " (or POOLD_URL)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	withTransport(t, func(*http.Request) (*http.Response, error) { return answer(http.StatusBadRequest, body("no")), nil })
	if _, err := runOn(t.Context(), newReload); err == nil || err.Error() != "the daemon answered 400 Bad Request" {
		t.Errorf("another 400: %v", err)
	}
}
