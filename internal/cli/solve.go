package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/targets"
)

// solveGrace is how long after its time-out the daemon may take to answer.
const solveGrace = 30 * time.Second

// newSolve is `poold solve`.
func newSolve(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "solve --type TYPE",
		Short: "solve one CAPTCHA now, through a running daemon",
		Long: "Makes a running daemon solve one CAPTCHA now, and prints the token alone. Each field of POST /solve is a\n" +
			"flag of its name. A proxy is never an argument, since it may hold a password.",
		Example: "  poold solve --type turnstile --sitekey 1x00000000000000000000AA --pageurl https://example.com/login\n" +
			"  poold solve --type image --image letters.png --charset digits",
		Args: Words(0),
	}
	flags := command.Flags()
	connect := ClientFlags(command, c)
	fields := requestFlags(command)
	s := solving{given: flags.Changed}
	flags.StringVar(&s.image, "image", "", "`file` with the picture, at most 1 MiB")
	flags.StringVar(&s.proxyFile, "proxy-file", "", "`file` with the proxy, as user:password@host:port (env POOLD_PROXY holds the proxy itself)")
	flags.StringVar(&s.idempotency, "idempotency-key", "", "the same `key` gets the same token again")
	flags.BoolVar(&s.json, "json", false, "print the daemon's whole answer")
	FilesFor(command, "image", "proxy-file")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if !flags.Changed("type") {
			return UsageError("needs --type")
		}
		daemon, err := connect()
		if err != nil {
			return err
		}
		timeout, err := flags.GetDuration("timeout")
		if err != nil {
			return err
		}
		s.limit = timeout + solveGrace
		return s.solve(command.Context(), c, daemon, fields())
	}
	return command
}

// solving is what the flags of `poold solve` say beside the fields of the request.
type solving struct {
	given                         func(flag string) bool
	image, proxyFile, idempotency string
	json                          bool
	limit                         time.Duration // of the exchange
}

// solve has a running daemon solve one CAPTCHA, and prints what it answers.
func (s *solving) solve(ctx context.Context, c *Console, daemon *Client, request map[string]any) (err error) {
	if s.given("image") {
		if request["image"], err = readPicture(s.image); err != nil {
			return err
		}
	}
	if proxy, err := readSecret(s.proxyFile, c.Env("POOLD_PROXY", "")); err != nil {
		return fmt.Errorf("reading the proxy: %w", err)
	} else if proxy != "" {
		request["proxy"] = proxy
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/plain"}}
	if s.json {
		header.Set("Accept", "application/json")
	}
	if s.given("idempotency-key") {
		header.Set("Idempotency-Key", s.idempotency)
	}
	_, answer, err := daemon.exchange(ctx, question{method: http.MethodPost, path: "/solve", header: header, body: body, limit: s.limit})
	if err != nil {
		return err
	}
	return c.printAlone(answer)
}

// requestFlags adds a flag for each field of POST /solve that may be an argument, and
// returns a function that gives those that were set, by the fields' names.
func requestFlags(command *cobra.Command) func() map[string]any {
	flags := command.Flags()
	given := map[string]func() any{} // by field
	for _, f := range targets.RequestFields() {
		if f.Key == "image" || f.Key == "proxy" {
			continue
		}
		name := flagOf(f.Key)
		switch preset := f.Default.(type) {
		case bool:
			value := flags.Bool(name, preset, f.Doc)
			given[f.Key] = func() any { return *value }
		case int:
			value := flags.Int(name, preset, f.Doc)
			given[f.Key] = func() any { return *value }
		case float64:
			value := flags.Float64(name, preset, f.Doc)
			given[f.Key] = func() any { return *value }
		case time.Duration:
			value := flags.Duration(name, preset, f.Doc)
			given[f.Key] = func() any { return value.String() }
		case string:
			value := flags.String(name, preset, f.Doc)
			given[f.Key] = func() any { return *value }
		}
	}
	return func() map[string]any {
		set := map[string]any{}
		for key, value := range given {
			if flags.Changed(flagOf(key)) {
				set[key] = value()
			}
		}
		return set
	}
}

// flagOf is the flag of a field.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

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
