package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
)

// Client sends requests to a running daemon.
type Client struct {
	base string
	key  captcha.Secret
}

// ClientFlags adds the flags --url and --key-file to a command. The returned function creates the
// client that these flags describe. No flag takes the key itself, because other users of the
// machine can see the arguments of a process.
func ClientFlags(command *cobra.Command, c *Console) func() (*Client, error) {
	base := command.Flags().String("url", c.Env("POOLD_URL", "http://127.0.0.1:8080"), "the daemon's `address` (env POOLD_URL)")
	keyFile := command.Flags().String("key-file", "", "`file` with the key (or set POOLD_KEY)")
	FilesFor(command, "key-file")
	return func() (*Client, error) {
		parsed, err := url.Parse(*base)
		switch {
		case err == nil && parsed.User != nil:
			return nil, UsageError("--url holds a user or a password, which other users could read: pass the key by --key-file or POOLD_KEY")
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

// onDaemon adds the client flags to a command. The command calls the function run with a client.
// onDaemon returns a function that creates a client for shell completion.
func onDaemon(command *cobra.Command, c *Console, run func(ctx context.Context, daemon *Client, words []string) error) func() (*Client, error) {
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, words []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		return run(command.Context(), daemon, words)
	}
	return connect
}

// readSecret returns the content of a file without surrounding white space. If the file name is
// empty, readSecret returns the fallback.
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

// answerLimit is the maximum number of bytes that the client reads of a response.
const answerLimit = 512 << 20

type apiRequest struct {
	method, path string
	header       http.Header // headers, except the header with the key; nil = none
	body         []byte
	limit        time.Duration // timeout for the whole exchange
	success      int           // the HTTP status of a successful response; 0 = 200
}

// refusal is the error for a response with an unexpected HTTP status.
type refusal struct {
	status int
	text   string
}

// Error returns the text that describes the refusal.
func (r *refusal) Error() string { return r.text }

// Ask sends a request without a body and returns the body of the response. A status other than 200
// is an error.
func (c *Client) Ask(ctx context.Context, method, path, accept string, limit time.Duration) ([]byte, error) {
	_, answer, err := c.exchange(ctx, apiRequest{method: method, path: path, header: http.Header{"Accept": {accept}}, limit: limit})
	return answer, err
}

// exchange sends one request and returns the headers and the body of the response. A response with
// an unexpected status is a *refusal.
func (c *Client) exchange(ctx context.Context, q apiRequest) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, nil, fmt.Errorf("asking the daemon: %w", err)
	}
	if q.header != nil {
		request.Header = q.header
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the daemon: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := readAnswer(response.Body)
	if err != nil || response.StatusCode == max(q.success, http.StatusOK) {
		return response.Header, answer, err
	}
	if response.StatusCode == http.StatusBadRequest && strings.TrimSpace(string(answer)) == plainToTLS {
		https := "https" + strings.TrimPrefix(c.base, "http")
		return nil, nil, &refusal{status: response.StatusCode, text: "the daemon expects TLS at this address: use --url " + https + " (or POOLD_URL)"}
	}
	return nil, nil, refusalOf(response, answer)
}

// plainToTLS is the body with which package net/http answers an unencrypted request to a TLS port.
const plainToTLS = "Client sent an HTTP request to an HTTPS server."

func readAnswer(body io.Reader) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(body, answerLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return answer, nil
}

func decode[T any](answer []byte) (*T, error) {
	document := new(T)
	if err := json.Unmarshal(answer, document); err != nil {
		return nil, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return document, nil
}

// refusalOf returns the error for an unsuccessful response. The error contains the daemon's
// description of the problem, or the HTTP status if the response has no description.
func refusalOf(response *http.Response, answer []byte) *refusal {
	r := &refusal{status: response.StatusCode}
	var problem kernel.Problem
	if json.Unmarshal(answer, &problem) != nil || problem.Code == "" {
		r.text = "the daemon answered " + Printable(response.Status)
		return r
	}
	r.text = Printable(string(problem.Code))
	if problem.Detail != "" {
		r.text += ": " + Printable(problem.Detail)
	}
	if after := response.Header.Get("Retry-After"); after != "" {
		r.text += "; try again in " + Printable(after) + " s"
	}
	for _, line := range problem.Problems {
		r.text += "\n  " + Printable(line)
	}
	return r
}
