package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes; docs/operating.md.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// The first signal stops in stages; after it the default is back, so that a
	// second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is what a sub-command gets to work with.
type command struct {
	name   string
	args   []string // without the sub-command
	word   string   // what --help calls the positional arguments; "" where there are none
	lookup func(string) (string, bool)
	stdout io.Writer
	stderr io.Writer
}

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

const usage = `poold keeps pools of CAPTCHA tokens that were solved ahead of time.

usage: poold [serve] [flags]            run the daemon in the foreground
       poold check [flags]              validate pools.yaml
       poold token TARGET [--wait 20s]  take one token from a running daemon
       poold solve --type TYPE [flags]  solve one CAPTCHA now, through a running daemon
       poold status [--json]            show a running daemon's status
       poold dead-letters list|replay   callbacks that a running daemon could not store
       poold history VIEW [flags]       how orders ended (site, day, tasks, solve), which are
                                        under way (active), who took what (key), what was spent (usage)
       poold simulate [flags]           replay demand against a refill policy
       poold healthcheck                ask a running daemon whether it is ready
       poold schema                     print the JSON Schema of pools.yaml
       poold version

poold COMMAND --help lists the command's flags. A flag beats the environment
(POOLD_CONFIG, POOLD_LISTEN, POOLD_URL, POOLD_KEY, POOLD_PROXY), which beats the file.
`

// run does what the arguments say and returns the exit code. It blocks until
// that is done or ctx ends.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	c := &command{name: "serve", args: args, lookup: lookup, stdout: stdout, stderr: stderr}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		c.name, c.args = args[0], args[1:]
	}
	commands := map[string]func(context.Context, *command) error{
		"serve":        serve,
		"check":        check,
		"token":        takeToken,
		"solve":        solve,
		"status":       printStatus,
		"simulate":     simulate,
		"healthcheck":  healthcheck,
		"dead-letters": deadLetters,
		"history":      readHistory,
		"schema":       printSchema,
		"version":      printVersion,
		"help":         help,
	}
	if len(args) > 0 {
		switch args[0] {
		case "-h", "-help", "--help":
			c.name = "help"
		case "-version", "--version":
			c.name, c.args = "version", nil
		}
	}
	// What cannot be said on stderr cannot be said anywhere: its errors are ignored.
	do, known := commands[c.name]
	if !known {
		_, _ = fmt.Fprintf(stderr, "poold: there is no command %q\n\n%s", c.name, usage)
		return exitUsage
	}
	err := do(ctx, c)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	_, _ = fmt.Fprintf(stderr, "poold %s: %v\n", c.name, err)
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

func help(_ context.Context, c *command) error {
	_, err := io.WriteString(c.stdout, usage)
	return err
}

// parse reads flags and up to `most` positional arguments, in any order.
func (c *command) parse(flags *flag.FlagSet, most int) ([]string, error) {
	flags.SetOutput(io.Discard) // errors are told once, by run
	flags.Usage = func() {}
	var words []string
	for rest := c.args; ; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(c.stdout)
			_, _ = fmt.Fprintln(c.stdout, strings.TrimSpace("usage: poold "+c.name+" [flags] "+c.word))
			flags.PrintDefaults()
			return nil, err
		} else if err != nil {
			return nil, usageError{err.Error()}
		}
		if flags.NArg() == 0 {
			break
		}
		words = append(words, flags.Arg(0))
		rest = flags.Args()[1:]
	}
	if len(words) > most {
		return nil, usageError{fmt.Sprintf("does not know what to do with %q", words[most])}
	}
	return words, nil
}

// env returns the variable's value, or the default where it is unset or empty.
func (c *command) env(name, otherwise string) string {
	if value, ok := c.lookup(name); ok && value != "" {
		return value
	}
	return otherwise
}
