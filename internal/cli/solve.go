package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/targets"
)

// newSolve returns `poold solve`. Each field of POST /solve has a flag of the same name; the picture
// and the proxy come from files.
func newSolve(c *Console) *cobra.Command {
	const image, proxy, idempotency = "image", "proxy_file", "idempotency_key"
	flags := []field{
		{name: "image", help: "`file` with the picture, at most 1 MiB"},
		{name: "proxy-file",
			help: "`file` with the proxy, as user:password@host:port (env POOLD_PROXY holds the proxy itself)"},
		{name: "idempotency-key", help: "the same `key` gets the same token again"},
	}
	isText := map[string]bool{}
	for _, f := range targets.RequestFields() {
		if f.Key == "image" || f.Key == "proxy" {
			continue
		}
		kind := f.Type.Kind()
		flags = append(flags, field{name: strings.ReplaceAll(f.Key, "_", "-"), help: f.Doc, isBool: kind == reflect.Bool,
			required: f.Key == "type"})
		isText[f.Key] = kind == reflect.String || kind == reflect.Int64 // a duration
	}
	prepare := func(of *call) error {
		fields := map[string]any{}
		for key := range of.given {
			if fields[key] = of.given.Get(key); !isText[key] {
				fields[key] = json.RawMessage(of.given.Get(key)) // a number or a boolean
			}
		}
		delete(fields, idempotency)
		delete(fields, proxy)
		if of.given.Has(idempotency) {
			of.header.Set("Idempotency-Key", of.given.Get(idempotency))
		}
		if of.given.Has(image) {
			picture, err := os.ReadFile(of.given.Get(image))
			if err != nil {
				return fmt.Errorf("reading the picture: %w", err)
			}
			fields[image] = picture // JSON has it in base64
		}
		secret, err := readSecret(of.given.Get(proxy), c.Env("POOLD_PROXY", ""))
		if err != nil {
			return fmt.Errorf("reading the proxy: %w", err)
		}
		if secret != "" {
			fields["proxy"] = secret
		}
		if of.body, err = json.Marshal(fields); err != nil {
			return UsageError("a flag needs a finite number, or true or false")
		}
		clear(of.given)
		return nil
	}
	return request{
		use: "solve --type TYPE", short: "solve one CAPTCHA now, through a running daemon",
		long: "Makes a running daemon solve one CAPTCHA now, and prints the token alone. Each field of POST /solve has a\n" +
			"flag of the same name. A proxy is never an argument, because it may contain a password. Exits with 3 if no\n" +
			"token came in time.",
		example: "solve --type turnstile --sitekey 1x00000000000000000000AA --pageurl https://example.com/login\n" +
			"  poold solve --type image --image letters.png --charset digits",
		method: http.MethodPost, path: "/solve", isText: true, limit: 6 * time.Minute,
		flags: flags, prepare: prepare,
	}.command(c)
}
