package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"poold/internal/targets"
)

// solveGrace is how long after its time-out the daemon may take to answer.
const solveGrace = 30 * time.Second

// solve has a running daemon solve one CAPTCHA now, and prints the token alone.
func solve(ctx context.Context, c *command) error {
	flags := newFlags(c)
	connect := clientFlags(flags, c)
	fields := requestFlags(flags)
	image := flags.String("image", "", "`file` with the picture, at most 1 MiB")
	proxyFile := flags.String("proxy-file", "", "`file` with the proxy, as user:password@host:port (or POOLD_PROXY in the environment)")
	idempotency := flags.String("idempotency-key", "", "the same `key` gets the same token again")
	asJSON := flags.Bool("json", false, "print the daemon's whole answer")
	if _, err := c.parse(flags, 0); err != nil {
		return err
	}
	if !isSet(flags, "type") {
		return usageError{"needs --type"}
	}
	daemon, err := connect()
	if err != nil {
		return err
	}
	request := fields()
	if isSet(flags, "image") {
		if request["image"], err = readPicture(*image); err != nil {
			return err
		}
	}
	// A proxy is never an argument, which others could read: it may hold a password.
	if proxy, err := readSecret(*proxyFile, c.env("POOLD_PROXY", "")); err != nil {
		return fmt.Errorf("reading the proxy: %w", err)
	} else if proxy != "" {
		request["proxy"] = proxy
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/plain"}}
	if *asJSON {
		header.Set("Accept", "application/json")
	}
	if isSet(flags, "idempotency-key") {
		header.Set("Idempotency-Key", *idempotency)
	}
	limit := flags.Lookup("timeout").Value.(flag.Getter).Get().(time.Duration) + solveGrace
	answer, err := daemon.send(ctx, http.MethodPost, "/solve", header, body, limit)
	if err != nil {
		return err
	}
	return c.printAlone(answer)
}

// requestFlags adds a flag for each field of POST /solve that may be an argument, and
// returns a function that gives those that were set, by the fields' names.
func requestFlags(flags *flag.FlagSet) func() map[string]any {
	field := map[string]string{} // by flag
	for _, f := range targets.RequestFields() {
		if f.Key == "image" || f.Key == "proxy" {
			continue
		}
		name := strings.ReplaceAll(f.Key, "_", "-")
		field[name] = f.Key
		switch preset := f.Default.(type) {
		case bool:
			flags.Bool(name, preset, f.Doc)
		case int:
			flags.Int(name, preset, f.Doc)
		case float64:
			flags.Float64(name, preset, f.Doc)
		case time.Duration:
			flags.Duration(name, preset, f.Doc)
		case string:
			flags.String(name, preset, f.Doc)
		}
	}
	return func() map[string]any {
		set := map[string]any{}
		flags.Visit(func(f *flag.Flag) {
			key, ours := field[f.Name]
			if !ours {
				return
			}
			set[key] = f.Value.(flag.Getter).Get()
			if d, ok := set[key].(time.Duration); ok {
				set[key] = d.String()
			}
		})
		return set
	}
}

// readPicture returns a file as base64.
func readPicture(name string) (string, error) {
	file, err := os.Open(name) //nolint:gosec // G304: the user names it
	if err != nil {
		return "", fmt.Errorf("reading the picture: %w", err)
	}
	defer func() { _ = file.Close() }() // it was read only
	picture, err := io.ReadAll(io.LimitReader(file, targets.MostPicture+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the picture: %w", err)
	case len(picture) == 0:
		return "", fmt.Errorf("the picture %s is empty", name)
	case len(picture) > targets.MostPicture:
		return "", fmt.Errorf("the picture %s has more than %d bytes (1 MiB)", name, targets.MostPicture)
	}
	return base64.StdEncoding.EncodeToString(picture), nil
}
