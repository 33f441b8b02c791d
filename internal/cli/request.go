package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// request is a command that sends one request to the daemon and prints the answer.
type request struct {
	use, short, long, example string

	args         cobra.PositionalArgs // nil = one argument for each %s in the path
	method, path string               // each %s in the path is an argument
	flags        []field
	inBody       bool          // the flags are fields of a JSON body instead of parameters of the query
	isText       bool          // without --json the answer is a text, such as a token
	hasCSV       bool          // the answer can be CSV
	limit        time.Duration // 0 = requestTime
	// prepare changes the request before it is sent; nil = no change.
	prepare func(*call) error
	// shown formats the answer; nil = the command prints nothing without --json.
	shown format
}

// format formats an object. The subject is the first argument of the command, or "". The object is nil
// if the daemon sent none.
type format func(subject string, of map[string]any) string

// field is a flag of a command. Its value becomes a part of the request, whose name is the flag's name with
// underscores.
type field struct {
	name, help       string
	required, isBool bool
}

// call is the request that one use of a command sends.
type call struct {
	words  []string
	given  url.Values // values of the flags that were given
	path   string
	header http.Header
	body   []byte
}

func commandsOf(c *Console, list []request) (commands []*cobra.Command) {
	for _, r := range list {
		commands = append(commands, r.command(c))
	}
	return commands
}

func (r request) command(c *Console) *cobra.Command {
	command := &cobra.Command{Use: r.use, Short: r.short, Long: r.long, Example: "  poold " + r.example, Args: r.args}
	if r.args == nil {
		command.Args = cobra.ExactArgs(strings.Count(r.path, "%s"))
	}
	given := url.Values{}
	addFields(command, r.flags, given)
	asJSON, asCSV := command.Flags().Bool("json", false, "print the daemon's answer as JSON"), new(bool)
	if r.hasCSV {
		asCSV = command.Flags().Bool("csv", false, "print the answer as CSV")
		command.MarkFlagsMutuallyExclusive("json", "csv")
	}
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, words []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(command.Context(), cmp.Or(r.limit, requestTime))
		defer cancel()
		accept := "application/json"
		switch {
		case *asCSV:
			accept = "text/csv"
		case r.isText && !*asJSON:
			accept = "text/plain"
		}
		got, err := r.send(ctx, daemon, words, given, accept)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(string(got.body))
		switch {
		case *asJSON:
			return c.Print(cmp.Or(string(got.body), "{}")) // a change has no body
		case *asCSV:
			return printCSV(c, got)
		case r.isText && text == "": // a script must not continue without a token
			return errors.New("the daemon's answer is empty")
		case r.isText:
			return c.Print(text)
		case r.shown == nil:
			return nil
		}
		var of map[string]any
		if len(got.body) > 0 {
			if of, err = decode[map[string]any](got.body); err != nil {
				return fmt.Errorf("reading the daemon's answer: %w", err)
			}
		}
		return c.Print(r.shown(strings.Join(words[:min(1, len(words))], ""), of))
	}
	return command
}

func (r request) send(ctx context.Context, daemon *Client, words []string, given url.Values,
	accept string) (answer, error) {
	escaped := make([]any, len(words))
	for i, word := range words {
		escaped[i] = url.PathEscape(word)
	}
	path := fmt.Sprintf(r.path, escaped[:strings.Count(r.path, "%s")]...)
	of := &call{words: words, given: given, path: path, header: http.Header{"Accept": {accept}}}
	if r.prepare != nil {
		if err := r.prepare(of); err != nil {
			return answer{}, err
		}
	}
	switch {
	case r.inBody && len(given) > 0:
		fields := map[string]string{}
		for key := range given {
			fields[key] = given.Get(key)
		}
		of.body, _ = json.Marshal(fields) // strings always have a JSON form
	case !r.inBody && len(given) > 0:
		of.path += "?" + given.Encode()
	}
	if of.body != nil {
		of.header.Set("Content-Type", "application/json")
	}
	return daemon.ask(ctx, r.method, of.path, of.header, of.body)
}

// printCSV prints the answer. Before that, it prints the flag for the next page on stderr, because CSV has no place for
// the flag, and a script must notice that more pages follow.
func printCSV(c *Console, got answer) error {
	link, _, _ := strings.Cut(strings.TrimPrefix(got.header.Get("Link"), "<?"), ">")
	if query, err := url.ParseQuery(link); err == nil && query.Has("cursor") { // else the Link comes from a proxy
		if _, err := fmt.Fprintf(c.Stderr, "there are more: add --cursor %s\n", Printable(query.Get("cursor"))); err != nil {
			return err
		}
	}
	return c.Print(string(got.body))
}

// addFields adds flags to a command. When the command line is parsed, the values of the flags are stored in given.
func addFields(command *cobra.Command, fields []field, given url.Values) {
	for _, f := range fields {
		set := func(value string) error {
			if value != "" {
				given.Set(strings.ReplaceAll(f.name, "-", "_"), value)
			}
			return nil
		}
		if f.isBool {
			command.Flags().BoolFunc(f.name, f.help, set)
		} else {
			command.Flags().Func(f.name, f.help, set)
		}
		if f.required {
			_ = command.MarkFlagRequired(f.name) // the flag exists
		}
	}
}
