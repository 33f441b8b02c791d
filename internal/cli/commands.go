package cli

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"poold/internal/targets"
)

// Program describes a build of poold and the commands that it adds to the client commands.
type Program struct {
	Version, Commit string
	Serve           func(*Console) *cobra.Command // returns the command that runs the daemon; `poold` without a command also runs the daemon
	HistoryInit     func(*Console) *cobra.Command // returns the command `poold history init`
	Others          []func(*Console) *cobra.Command
}

// Root returns the root command of poold, with all subcommands.
func (p Program) Root(c *Console) *cobra.Command {
	root := p.Serve(c)
	root.Use = "poold [COMMAND]"
	root.Short = "keeps pools of CAPTCHA tokens that were solved ahead of time"
	root.Long = ""
	root.Example = ""
	root.Args = noSuchCommand
	root.SilenceErrors, root.SilenceUsage, root.DisableAutoGenTag = true, true, true // the caller prints each error once
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	version := root.Flags().Bool("version", false, "print version, commit and Go version")
	serve := root.RunE
	root.RunE = func(command *cobra.Command, words []string) error {
		if *version {
			return p.printVersion(c)
		}
		return serve(command, words)
	}
	root.PersistentFlags().BoolP("help", "h", false, "show what the command does")
	root.PersistentFlags().Lookup("help").Hidden = true // hidden, because every command has this flag
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(command *cobra.Command, _ []string) { command.Print(helpOf(command)) })
	root.SetHelpCommand(newHelp(c))
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion replaces cobra's own command
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(
		p.Serve(c), newToken(c), newSolve(c), newReport(c), newStatus(c),
		newPause(c), newResume(c), newFlush(c), newProbe(c), newReload(c),
		newEvents(c), newHistory(c, p.HistoryInit(c)), newDeadLetters(c),
		newHealthcheck(c), newSchema(c), newVersion(c, p), newCompletion(c), newMan(c, p),
	)
	for _, other := range p.Others {
		root.AddCommand(other(c))
	}
	return root
}

// noSuchCommand returns a usage error if the first argument is not the name of a command.
func noSuchCommand(command *cobra.Command, words []string) error {
	if len(words) == 0 {
		return nil
	}
	return UsageError(fmt.Sprintf("there is no command %q%s", words[0], suggestion(words[0], "", namesBelow(command))))
}

func namesBelow(command *cobra.Command) (names []string) {
	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	return names
}

// addCommands adds subcommands to a command. addCommands also adds the flags of the subcommands to
// the command, so that a flag can precede the name of the subcommand.
func addCommands(command *cobra.Command, of ...*cobra.Command) {
	for _, below := range of {
		command.AddCommand(below)
		below.Flags().VisitAll(func(f *pflag.Flag) {
			if command.Flags().Lookup(f.Name) == nil {
				command.Flags().AddFlag(f)
			}
		})
	}
	command.DisableFlagsInUseLine = true
	command.Args = cobra.ArbitraryArgs
	command.RunE = func(command *cobra.Command, words []string) error {
		text := "needs one of the words " + strings.Join(namesBelow(command), ", ")
		if len(words) == 0 {
			return UsageError(text + "; `" + command.CommandPath() + " --help` explains them")
		}
		if near := suggestion(words[0], "", namesBelow(command)); near != "" {
			text += fmt.Sprintf(" and does not know %q%s", words[0], near)
		}
		return UsageError(text)
	}
}

// Words returns a function that checks the number of arguments. The command requires one argument
// for each of the given descriptions, and accepts the given number of optional arguments. The error
// for a missing argument contains its description.
func Words(optional int, needed ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		most := len(needed) + optional
		switch {
		case len(given) < len(needed):
			return UsageError("needs " + needed[len(given)])
		case len(given) > most:
			return UsageError(fmt.Sprintf("unexpected argument %q", given[most]))
		}
		return nil
	}
}

// flagError converts an error about a flag to a message for users. For an unknown flag the message
// suggests the most similar known flag.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		return UsageError(fmt.Sprintf("invalid value %q for flag --%s: %s", invalid.GetValue(), invalid.GetFlag().Name, mustBe(invalid)))
	case !errors.As(err, &unknown):
		return UsageError(err.Error())
	}
	var names []string
	command.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if letters, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "="); len(letters) > 1 {
		// The argument has one dash, so pflag read its letters as short flags. pflag treated an h
		// at the start as --help, so the h may be missing from the letters.
		for _, name := range []string{letters, "h" + letters} {
			if command.Flags().Lookup(name) != nil {
				return UsageError(fmt.Sprintf("a flag has two dashes: --%s", name))
			}
		}
		return UsageError(fmt.Sprintf("%s has no -%s%s", command.Name(), letters, suggestion(letters, "--", names)))
	}
	name := unknown.GetSpecifiedName()
	dashes := "--"
	if unknown.GetSpecifiedShortnames() != "" {
		dashes = "-"
	}
	return UsageError(fmt.Sprintf("%s has no %s%s%s", command.Name(), dashes, name, suggestion(name, "--", names)))
}

// mustBe describes the valid values of a flag.
func mustBe(invalid *pflag.InvalidValueError) string {
	switch invalid.GetFlag().Value.Type() {
	case "bool", "boolfunc":
		return "must be true or false"
	case "duration":
		return "must be a duration with its unit, such as 1m30s"
	case "int", "uint64":
		return "must be a whole number"
	case "float64":
		return "must be a number"
	}
	return errors.Unwrap(invalid).Error()
}

// suggestion returns a text such as "; did you mean --url?" with the known word that is most
// similar to the given word. The argument before is a prefix such as "--". If no known word is
// similar, the text is empty.
func suggestion(word, before string, known []string) string {
	if near := targets.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s%s?", before, near)
	}
	return ""
}

// ConfigFlag adds the flag --config to a command and returns its value.
func ConfigFlag(command *cobra.Command, c *Console) *string {
	value := command.Flags().String("config", c.Env("POOLD_CONFIG", "pools.yaml"), "the configuration `file` (env POOLD_CONFIG)")
	FilesFor(command, "config")
	return value
}

// FilesFor declares that the values of the named flags are file names, for shell completion.
// FilesFor panics if the command lacks one of the flags.
func FilesFor(command *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := command.MarkFlagFilename(name); err != nil {
			panic(err) // the flag does not exist
		}
	}
}

// OneOf declares the valid values of a flag, for shell completion. OneOf panics if the command
// lacks the flag.
func OneOf(command *cobra.Command, flag string, values ...string) {
	if err := command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

func newSchema(c *Console) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "print the JSON Schema of pools.yaml",
		Long:    "Prints the JSON Schema of pools.yaml, for editors.",
		Example: "  poold schema > pools.schema.json",
		Args:    Words(0),
		RunE: func(*cobra.Command, []string) error {
			_, err := c.Stdout.Write(targets.Schema())
			return err
		},
	}
}

func newVersion(c *Console, p Program) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print version, commit and Go version",
		Example: "  poold version",
		Args:    Words(0),
		RunE:    func(*cobra.Command, []string) error { return p.printVersion(c) },
	}
}

func (p Program) printVersion(c *Console) error {
	_, err := fmt.Fprintf(c.Stdout, "poold %s, commit %s, %s\n", p.Version, p.Commit, runtime.Version())
	return err
}
