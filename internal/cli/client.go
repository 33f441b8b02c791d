package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/captcha"
)

// requestTime is the timeout of most requests. It is longer than every timeout of the daemon.
const requestTime = time.Minute

// Client sends requests to a running daemon.
type Client struct {
	base string
	key  captcha.Secret
}

// ClientFlags adds the flags --url and --key-file to a command. The returned function creates the
// client. No flag takes the key itself, because other users of the machine can see the arguments
// of a process.
func ClientFlags(command *cobra.Command, c *Console) func() (*Client, error) {
	base := command.Flags().String("url", c.Env("POOLD_URL", "http://127.0.0.1:8080"),
		"the daemon's `address` (env POOLD_URL)")
	keyFile := command.Flags().String("key-file", "", "`file` with the key (or set POOLD_KEY)")
	return func() (*Client, error) {
		if !strings.Contains(*base, "://") {
			*base = "http://" + *base
		}
		parsed, err := url.Parse(*base)
		switch {
		case err == nil && parsed.User != nil:
			return nil, UsageError("--url holds a user or a password, which other users could read: " +
				"pass the key by --key-file or POOLD_KEY")
		case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https"):
			return nil, UsageError(fmt.Sprintf("--url must be like http://127.0.0.1:8080, not %q", *base))
		}
		key, err := readSecret(*keyFile, c.Env("POOLD_KEY", ""))
		if err != nil {
			return nil, fmt.Errorf("reading the key: %w", err)
		}
		return &Client{base: strings.TrimSuffix(*base, "/"), key: captcha.Secret(key)}, nil
	}
}

// readSecret returns the content of a file. If the argument file is "", it returns the fallback.
func readSecret(file, fallback string) (string, error) {
	if file == "" {
		return fallback, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // G304: the user names it
	secret := strings.TrimSpace(string(text))
	if err == nil && secret == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return secret, err
}

// Get returns the body of a successful answer.
func (d *Client) Get(ctx context.Context, path string) ([]byte, error) {
	got, err := d.ask(ctx, http.MethodGet, path, nil, nil)
	return got.body, err
}

// answer is a successful answer of the daemon.
type answer struct {
	header http.Header
	body   []byte
}

// refusal is the error for an answer with a status of 300 or above.
type refusal struct {
	Code, Detail string   // of the daemon's problem document; "" if the answer is none
	Problems     []string // further lines
	text         string
}

func (r *refusal) Error() string { return r.text }

// ask sends one request. It never repeats a request, because a repeated one could take a second token.
func (d *Client) ask(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("asking the daemon: %w", err)
	}
	if header != nil {
		request.Header = header
	}
	if d.key != "" {
		request.Header.Set("Authorization", "Bearer "+d.key.Reveal())
	}
	// redirects are not followed, so that the key is sent only to this daemon
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("asking the daemon at --url or POOLD_URL: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	if response.StatusCode == http.StatusUnauthorized && d.key == "" {
		return answer{}, errors.New("the daemon needs a key: set POOLD_KEY, or give --key-file")
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return answer{}, refusalOf(response, text)
	}
	return answer{response.Header, text}, nil
}

// refusalOf returns the daemon's description of a problem, or the HTTP status if there is none.
func refusalOf(response *http.Response, body []byte) *refusal {
	r := new(refusal)
	if json.Unmarshal(body, r) != nil || r.Code == "" {
		r.text = "the daemon answered " + Printable(response.Status)
		if response.Header.Get("Content-Type") == "" && len(body) > 0 { // package net/http says so that the port expects TLS
			r.text += ": " + Printable(strings.TrimSpace(string(body)))
		}
		return r
	}
	r.text = Printable(r.Code)
	if r.Detail != "" {
		r.text += ": " + Printable(strings.Replace(r.Detail, "?wait=", "--wait ", 1))
	}
	if after := response.Header.Get("Retry-After"); after != "" {
		r.text += "; try again in " + Printable(after) + " s"
	}
	for _, line := range r.Problems {
		r.text += "\n  " + Printable(line)
	}
	return r
}
