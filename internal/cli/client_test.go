package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// transport is an http.RoundTripper that answers requests in place of a daemon.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// withTransport replaces the network of all commands until the test ends.
func withTransport(t *testing.T, answer transport) {
	t.Helper()
	before := http.DefaultTransport
	http.DefaultTransport = answer
	t.Cleanup(func() { http.DefaultTransport = before })
}

func answer(status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Header: http.Header{}, Body: body}
}

// runOn runs one command with a daemon at http://daemon.
func runOn(ctx context.Context, command func(*Console) *cobra.Command, args ...string) (printed string, err error) {
	var out strings.Builder
	c := &Console{Lookup: func(name string) (string, bool) { return "http://daemon", name == "POOLD_URL" }, Stdout: &out, Stderr: &out}
	root := command(c)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return out.String(), err
}

// The timeout of a command is longer than the time within which the daemon responds.
func TestCommandsWaitLongerThanTheDaemonTakes(t *testing.T) {
	var limit time.Duration
	withTransport(t, func(r *http.Request) (*http.Response, error) {
		deadline, _ := r.Context().Deadline()
		limit = time.Until(deadline)
		return nil, errors.New("away")
	})
	history := func(c *Console) *cobra.Command { return newHistory(c, &cobra.Command{Use: "init"}) }
	for _, c := range []struct {
		name    string
		command func(*Console) *cobra.Command
		args    string
		daemon  time.Duration // time within which the daemon responds
	}{
		{"token, by on_empty", newToken, "login", time.Minute},
		{"token, no wait", newToken, "login --wait 0s", 0},
		{"token, a wait", newToken, "login --wait 45s", 45 * time.Second},
		{"solve, by default", newSolve, "--type turnstile", 2 * time.Minute},
		{"solve, a timeout", newSolve, "--type turnstile --timeout 300s", 300 * time.Second},
		{"probe", newProbe, "acme", 20 * time.Second},
		{"history", history, "day", 10 * time.Second},
		{"flush", newFlush, "login", 5 * time.Second},
	} {
		if _, err := runOn(t.Context(), c.command, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), "asking the daemon: ") {
			t.Errorf("%s: %v", c.name, err)
		}
		if limit < c.daemon+4*time.Second || limit > c.daemon+time.Minute {
			t.Errorf("%s waits %v for a daemon that may take %v", c.name, limit, c.daemon)
		}
	}
}

// Only the JSON of the status has the minutes of each target, because they are most of the document.
func TestOnlyTheJSONHasTheMinutes(t *testing.T) {
	for _, c := range []struct {
		json  bool
		query string
	}{{false, "?minutes=0"}, {true, ""}} {
		asked := ""
		withTransport(t, func(r *http.Request) (*http.Response, error) {
			asked += " " + r.URL.RequestURI()
			return answer(http.StatusOK, body(`{"as_of":"a","targets":[]}`)), nil
		})
		console, daemon, view := &Console{Stdout: io.Discard, Stderr: io.Discard}, &Client{base: "http://daemon"}, &statusView{json: c.json}
		shown := view.show(t.Context(), console, daemon)
		ctx, cancel := context.WithTimeout(t.Context(), watchEvery/2)
		err := watch(ctx, console, daemon, view)
		cancel()
		want := " /status.json" + c.query + " /status.json" + c.query
		if shown != nil || err != nil || asked != want {
			t.Errorf("JSON %v: asked%s, want%s (%v, %v)", c.json, asked, want, shown, err)
		}
	}
}
