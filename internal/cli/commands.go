package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"poold/internal/targets"
)

// Program is what a build of poold adds to the client commands.
type Program struct {
	Version, Commit string
	Serve           func(*Console) *cobra.Command // runs the daemon; it is also the command without a name
	HistoryInit     func(*Console) *cobra.Command // becomes `poold history init`
	Others          []func(*Console) *cobra.Command
}

// Root returns poold with all its commands.
func (p Program) Root(c *Console) *cobra.Command {
	root := p.Serve(c)
	root.Use = "poold [COMMAND]"
	root.Short = "keeps pools of CAPTCHA tokens that were solved ahead of time"
	root.Long = ""
	root.Example = ""
	root.Args = noSuchCommand
	root.SilenceErrors, root.SilenceUsage, root.DisableAutoGenTag = true, true, true // the caller prints the error, once
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
	root.PersistentFlags().Lookup("help").Hidden = true // every command has it
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(command *cobra.Command, _ []string) { writeHelp(c.Stdout, command) })
	root.SetHelpCommand(newHelp(c))
	root.CompletionOptions.DisableDefaultCmd = true // ours has the shells that the docs name
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(
		p.Serve(c), newToken(c), newSolve(c), newReport(c), newStatus(c),
		newPause(c), newResume(c), newFlush(c), newWarm(c), newProbe(c), newReload(c),
		newHistory(c, p.HistoryInit(c)), newDeadLetters(c),
		newHealthcheck(c), newSchema(c), newVersion(c, p), newCompletion(c), newMan(c, p),
	)
	for _, other := range p.Others {
		root.AddCommand(other(c))
	}
	return root
}

// noSuchCommand refuses what stands where a command's name belongs.
func noSuchCommand(command *cobra.Command, words []string) error {
	if len(words) == 0 {
		return nil
	}
	return UsageError(fmt.Sprintf("there is no command %q%s", words[0], meant(words[0], "", namesBelow(command))))
}

// namesBelow are the names of a command's commands.
func namesBelow(command *cobra.Command) (names []string) {
	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	return names
}

// addCommands makes a command of others. Their flags may stand before their names: they are
// flags of the command too.
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
			return UsageError(text)
		}
		if meant := meant(words[0], "", namesBelow(command)); meant != "" {
			text += fmt.Sprintf(" and does not know %q%s", words[0], meant)
		}
		return UsageError(text)
	}
}

// words checks how many words follow a command: one for each that it needs, which the
// error names, and up to `more`.
func Words(more int, needed ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		most := len(needed) + more
		switch {
		case len(given) < len(needed):
			return UsageError("needs " + needed[len(given)])
		case len(given) > most:
			return UsageError(fmt.Sprintf("does not know what to do with %q", given[most]))
		}
		return nil
	}
}

// flagError says what is wrong with a flag.
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
		// One dash: what is left of the letters. An h before them was taken for --help.
		for _, name := range []string{letters, "h" + letters} {
			if command.Flags().Lookup(name) != nil {
				return UsageError(fmt.Sprintf("a flag has two dashes: --%s", name))
			}
		}
		return UsageError(fmt.Sprintf("%s has no -%s%s", command.Name(), letters, meant(letters, "--", names)))
	}
	name := unknown.GetSpecifiedName()
	dashes := "--"
	if unknown.GetSpecifiedShortnames() != "" {
		dashes = "-"
	}
	return UsageError(fmt.Sprintf("%s has no %s%s%s", command.Name(), dashes, name, meant(name, "--", names)))
}

// mustBe says what the value of a flag must be.
func mustBe(invalid *pflag.InvalidValueError) string {
	switch invalid.GetFlag().Value.Type() {
	case "bool", "boolfunc":
		return "must be true or false"
	case "duration":
		return "must be a time with its unit, as 1m30s"
	case "int", "uint64":
		return "must be a whole number"
	case "float64":
		return "must be a number"
	}
	return errors.Unwrap(invalid).Error()
}

// meant asks for the known word, with what stands before it, that another one is near to;
// "" where none is.
func meant(word, before string, known []string) string {
	if near := targets.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s%s?", before, near)
	}
	return ""
}

// configFlag adds --config.
func ConfigFlag(command *cobra.Command, c *Console) *string {
	value := command.Flags().String("config", c.Env("POOLD_CONFIG", "pools.yaml"), "the `file` with everything in it (env POOLD_CONFIG)")
	FilesFor(command, "config")
	return value
}

// filesFor has a shell complete the names of files for flags.
func FilesFor(command *cobra.Command, flags ...string) {
	for _, name := range flags {
		// Of the shells' languages; it fails for a flag that is not there alone.
		if err := command.MarkFlagFilename(name); err != nil {
			panic(err)
		}
	}
}

// oneOf has a shell complete the values of a flag.
func OneOf(command *cobra.Command, flag string, values ...string) {
	if err := command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there
	}
}
