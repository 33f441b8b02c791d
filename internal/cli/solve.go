package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"poold/internal/targets"
)

// solveGrace is added to the timeout of the solve, to get the timeout of the client.
const solveGrace = 30 * time.Second

func newSolve(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "solve --type TYPE",
		Short: "solve one CAPTCHA now, through a running daemon",
		Long: "Makes a running daemon solve one CAPTCHA now, and prints the token alone. Each field of POST /solve has a\n" +
			"flag of the same name. A proxy is never an argument, because it may contain a password.",
		Example: "  poold solve --type turnstile --sitekey 1x00000000000000000000AA --pageurl https://example.com/login\n" +
			"  poold solve --type image --image letters.png --charset digits",
		Args: Words(0),
	}
	flags := command.Flags()
	var s solveFlags
	requestFlags(flags)
	flags.StringVar(&s.image, "image", "", "`file` with the picture, at most 1 MiB")
	flags.StringVar(&s.proxyFile, "proxy-file", "", "`file` with the proxy, as user:password@host:port (env POOLD_PROXY holds the proxy itself)")
	flags.StringVar(&s.idempotencyKey, "idempotency-key", "", "the same `key` gets the same token again")
	flags.BoolVar(&s.json, "json", false, "print the daemon's whole answer")
	FilesFor(command, "image", "proxy-file")
	onDaemon(command, c, func(ctx context.Context, daemon *Client, _ []string) error {
		if !flags.Changed("type") {
			return UsageError("needs --type")
		}
		return s.solve(ctx, c, daemon, flags)
	})
	return command
}

// solveFlags holds the flags of `poold solve` that are not fields of POST /solve.
type solveFlags struct {
	image, proxyFile, idempotencyKey string
	json                             bool
}

func (s *solveFlags) solve(ctx context.Context, c *Console, daemon *Client, flags *pflag.FlagSet) error {
	request := requestOf(flags)
	timeout, _ := flags.GetDuration("timeout") // requestFlags has added this flag
	if flags.Changed("image") {
		picture, err := readPicture(s.image)
		if err != nil {
			return err
		}
		request["image"] = picture
	}
	if proxy, err := readSecret(s.proxyFile, c.Env("POOLD_PROXY", "")); err != nil {
		return fmt.Errorf("reading the proxy: %w", err)
	} else if proxy != "" {
		request["proxy"] = proxy
	}
	body, err := json.Marshal(request)
	if err != nil {
		return UsageError("a number must be finite, not NaN or Inf")
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/plain"}}
	if s.json {
		header.Set("Accept", "application/json")
	}
	if flags.Changed("idempotency-key") {
		header.Set("Idempotency-Key", s.idempotencyKey)
	}
	_, answer, err := daemon.exchange(ctx, apiRequest{method: http.MethodPost, path: "/solve", header: header, body: body, limit: timeout + solveGrace})
	if err != nil {
		return err
	}
	return c.printAlone(answer)
}

// argumentFields returns the fields of POST /solve that have a flag. The image and the proxy come
// from files instead.
func argumentFields() []targets.RequestField {
	return slices.DeleteFunc(targets.RequestFields(), func(f targets.RequestField) bool { return f.Key == "image" || f.Key == "proxy" })
}

func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

func requestFlags(flags *pflag.FlagSet) {
	for _, f := range argumentFields() {
		name := flagOf(f.Key)
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
}

// requestOf returns the fields of POST /solve that the command line sets.
func requestOf(flags *pflag.FlagSet) map[string]any {
	request := map[string]any{}
	for _, f := range argumentFields() {
		flag := flags.Lookup(flagOf(f.Key))
		if !flag.Changed {
			continue
		}
		switch flag.Value.Type() {
		case "bool", "int", "float64": // the text of a finite value is valid JSON
			request[f.Key] = json.RawMessage(flag.Value.String())
		default:
			request[f.Key] = flag.Value.String()
		}
	}
	return request
}

func readPicture(name string) (string, error) {
	file, err := os.Open(name) //nolint:gosec // G304: the user names it
	if err != nil {
		return "", fmt.Errorf("reading the picture: %w", err)
	}
	defer func() { _ = file.Close() }() // closing a file after reading loses no data
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
