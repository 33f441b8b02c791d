package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi"
)

// client asks a running daemon.
type client struct {
	base string
	key  captcha.Secret
}

// clientFlags adds --url and --key-file and returns a function that makes the
// client they describe. A key is never an argument, which others could read.
func clientFlags(flags *flag.FlagSet, c *command) func() (*client, error) {
	base := flags.String("url", c.env("POOLD_URL", "http://127.0.0.1:8080"), "the daemon's `address`")
	keyFile := flags.String("key-file", "", "`file` with the key to use (or POOLD_KEY in the environment)")
	return func() (*client, error) {
		parsed, err := url.Parse(*base)
		if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			return nil, usageError{fmt.Sprintf("--url must be like http://127.0.0.1:8080, not %q", *base)}
		}
		key, err := readSecret(*keyFile, c.env("POOLD_KEY", ""))
		if err != nil {
			return nil, fmt.Errorf("reading the key: %w", err)
		}
		return &client{base: strings.TrimSuffix(*base, "/"), key: captcha.Secret(key)}, nil
	}
}

// readSecret returns the text of a file, without the space around it; without a file it
// is the other one.
func readSecret(file, otherwise string) (string, error) {
	if file == "" {
		return otherwise, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // G304: the user names it
	return strings.TrimSpace(string(text)), err
}

// answerLimit is the most that is read of an answer.
const answerLimit = 64 << 20

// ask sends one request and returns the body of a 200; any other answer is an
// error in the daemon's own words.
func (c *client) ask(ctx context.Context, method, path, accept string, limit time.Duration) ([]byte, error) {
	return c.send(ctx, method, path, http.Header{"Accept": {accept}}, nil, limit)
}

// send is ask with a body and all headers but the key.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body []byte, limit time.Duration) ([]byte, error) {
	_, answer, err := c.exchange(ctx, method, path, header, body, limit)
	return answer, err
}

// exchange is send that returns the answer's headers too.
func (c *client) exchange(ctx context.Context, method, path string, header http.Header, body []byte, limit time.Duration) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header = header
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the daemon: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Header, answer, nil
	}
	return nil, nil, problemOf(response, answer)
}

// problemOf is an answer other than 200 as an error.
func problemOf(response *http.Response, answer []byte) error {
	var problem httpapi.Problem
	if json.Unmarshal(answer, &problem) != nil || problem.Code == "" {
		return fmt.Errorf("the daemon answered %s", printable(response.Status))
	}
	text := printable(string(problem.Code))
	if problem.Detail != "" {
		text += ": " + printable(problem.Detail)
	}
	if after := response.Header.Get("Retry-After"); after != "" {
		text += "; try again in " + after + " s"
	}
	for _, line := range problem.Problems {
		text += "\n  " + printable(line)
	}
	return errors.New(text)
}

// takeToken takes one token and prints it alone.
func takeToken(ctx context.Context, c *command) error {
	flags := newFlags(c)
	connect := clientFlags(flags, c)
	wait := flags.Duration("wait", 0, "wait so long for a token, 60s at most")
	c.word = "TARGET"
	words, err := c.parse(flags, 1)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return usageError{"needs the name of a target"}
	}
	daemon, err := connect()
	if err != nil {
		return err
	}
	path := "/pool/" + url.PathEscape(words[0]) + "/token"
	if isSet(flags, "wait") {
		path += "?wait=" + wait.String()
	}
	// POST, because Go sends a GET again whose connection died, and that would
	// take a second token.
	body, err := daemon.ask(ctx, http.MethodPost, path, "text/plain", *wait+30*time.Second)
	if err != nil {
		return err
	}
	return c.printAlone(body)
}

// printAlone prints a token.
func (c *command) printAlone(token []byte) error {
	_, err := fmt.Fprintln(c.stdout, strings.TrimSpace(string(token)))
	return err
}

// healthcheck asks /readyz.
func healthcheck(ctx context.Context, c *command) error {
	flags := newFlags(c)
	connect := clientFlags(flags, c)
	if _, err := c.parse(flags, 0); err != nil {
		return err
	}
	daemon, err := connect()
	if err != nil {
		return err
	}
	_, err = daemon.ask(ctx, http.MethodGet, "/readyz", "application/json", 5*time.Second)
	return err
}

func isSet(flags *flag.FlagSet, name string) bool {
	found := false
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
