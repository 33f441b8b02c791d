package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"poold/internal/targets"
)

// The exit codes of poold, which docs/api.md describes.
const (
	ExitDone    = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitNoToken = 3
)

// Console is the environment, the input and the output of a command.
type Console struct {
	Lookup func(string) (string, bool) // reads an environment variable
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Env returns the value of an environment variable, or the fallback if it is unset or empty.
func (c *Console) Env(name, fallback string) string {
	if value, ok := c.Lookup(name); ok && value != "" {
		return value
	}
	return fallback
}

// UsageError is a mistake on the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Program describes a build of poold and the commands that it adds to the client commands.
type Program struct {
	Version     string                          // what `poold version` prints after "poold "
	Serve       func(*Console) *cobra.Command   // also runs without the name of a command
	HistoryInit func(*Console) *cobra.Command   // `poold history init`
	Others      func(*Console) []*cobra.Command // the further commands
}

// Run executes a command line and returns the exit code.
func (p Program) Run(ctx context.Context, c *Console, args []string) int {
	root := p.Root(c)                         //nolint:contextcheck // ExecuteContextC passes ctx to the commands
	root.SetArgs(append([]string{}, args...)) // cobra would replace nil by the arguments of the process
	started := false
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		if err := errors.Join(command.ValidateRequiredFlags(), command.ValidateFlagGroups()); err != nil {
			return err
		}
		started = true
		return nil
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	// A failed write to stderr cannot be reported anywhere.
	_, _ = fmt.Fprintf(c.Stderr, "%s: %s\n", command.CommandPath(), PrintableLines(strings.TrimSpace(err.Error())))
	refused, _ := errors.AsType[*refusal](err)
	switch {
	case !started, errors.As(err, new(UsageError)):
		return ExitUsage
	case refused != nil && (refused.Code == "pool_empty" || refused.Code == "solve_timeout"):
		return ExitNoToken
	}
	return ExitFailed
}

// Root returns the root command of poold, with all subcommands. cobra adds help and completion.
func (p Program) Root(c *Console) *cobra.Command {
	root := p.Serve(c)
	root.Use, root.Short, root.Example = "poold", "keeps pools of CAPTCHA tokens that were solved ahead of time", ""
	root.Long = "poold keeps pools of CAPTCHA tokens that were solved ahead of time. Without a command it is poold " +
		"serve.\nA flag overrides the environment, which overrides the file."
	root.Args = nil // so that cobra suggests a command for a mistyped one
	root.SilenceErrors, root.SilenceUsage, root.DisableAutoGenTag = true, true, true
	root.Version = p.Version
	root.SetVersionTemplate("poold {{.Version}}\n")
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	version := &cobra.Command{
		Use: "version", Short: "print version, commit and Go version", Example: "  poold version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.Print("poold " + p.Version) },
	}
	schema := &cobra.Command{
		Use: "schema", Short: "print the JSON Schema of pools.yaml, for editors",
		Example: "  poold schema > pools.schema.json", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.Print(string(targets.Schema())) },
	}
	history := group("history", "show ended orders, orders in flight, the audit and the spend",
		commandsOf(c, historyCommands())...)
	history.AddCommand(p.HistoryInit(c))
	root.AddCommand(p.Serve(c), newSolve(c), newStatus(c), history, version, schema, p.newMan(c),
		group("dead-letters", "list or replay callbacks that a running daemon could not store",
			commandsOf(c, deadLetterCommands())...))
	root.AddCommand(commandsOf(c, clientCommands())...)
	root.AddCommand(p.Others(c)...)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, words []string) error {
		found, rest, err := root.Find(words)
		return cmp.Or(err, cobra.NoArgs(found, rest))
	}
	return root
}

// group returns a command that has only subcommands.
func group(name, short string, of ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return UsageError("needs a command; `" + command.CommandPath() + " --help` lists them")
		}}
	command.AddCommand(of...)
	return command
}

// newMan returns the command `poold man`, which packagers use.
func (p Program) newMan(c *Console) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write the man pages of all commands into a folder", Args: cobra.ExactArgs(1), Hidden: true,
		Example: "  poold man /usr/local/share/man/man1",
		RunE: func(_ *cobra.Command, words []string) error {
			if err := os.MkdirAll(words[0], 0o755); err != nil { //nolint:gosec // G301: all users must be able to read the pages
				return err
			}
			// The defaults in the pages must not come from the packager's environment.
			root := p.Root(&Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: c.Stdout,
				Stderr: c.Stderr})
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "poold"}, words[0]); err != nil {
				return fmt.Errorf("writing the man pages: %w", err)
			}
			return c.Print("the man pages are in " + words[0])
		},
	}
}

// ConfigFlag adds the flag --config to a command and returns its value.
func ConfigFlag(command *cobra.Command, c *Console) *string {
	return command.Flags().String("config", c.Env("POOLD_CONFIG", "pools.yaml"),
		"the configuration `file` (env POOLD_CONFIG)")
}

// LogFlags adds the flags --log-format and --log-level. The returned function creates the logger, and the writer of its
// lines, which must be closed.
func LogFlags(command *cobra.Command, c *Console) func() (*slog.Logger, *LogWriter, error) {
	options := &slog.HandlerOptions{ReplaceAttr: readable}
	format := command.Flags().String("log-format", "text", "text or json")
	level := new(slog.LevelVar)
	options.Level = level
	command.Flags().TextVar(level, "log-level", level, "lowest `level` of the log lines: debug, info, warn or error")
	return func() (*slog.Logger, *LogWriter, error) {
		w := &LogWriter{lines: make(chan []byte, mostLines), stop: make(chan struct{}), done: make(chan struct{})}
		handler, is := map[string]slog.Handler{
			"text": slog.NewTextHandler(w, options), "json": slog.NewJSONHandler(w, options),
		}[*format]
		if !is {
			return nil, nil, UsageError(fmt.Sprintf("--log-format is text or json, not %q", *format))
		}
		go w.run(c.Stderr)
		return slog.New(handler), w, nil
	}
}

// readable writes durations as text, because a JSON number would lack the unit, and omits unknown
// times (zero).
func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindTime:
		if a.Value.Time().IsZero() {
			return slog.Attr{}
		}
	}
	return a
}
