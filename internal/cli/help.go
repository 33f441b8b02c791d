package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// helpColumns is how wide help is at most.
const helpColumns = 100

func newHelp(c *Console) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "show what a command does, with examples",
		Example: "  poold help token\n  poold help history usage",
		Args:    cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, words []string) error {
			about, rest, err := command.Root().Find(words)
			if err == nil && len(rest) > 0 {
				err = noSuchCommand(about, rest)
			}
			if err != nil {
				return err
			}
			writeHelp(c.Stdout, about)
			return nil
		},
		ValidArgsFunction: func(command *cobra.Command, words []string, begin string) (names []string, _ cobra.ShellCompDirective) {
			about, rest, err := command.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, name := range namesBelow(about) {
				if strings.HasPrefix(name, begin) {
					names = append(names, name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// writeHelp says what a command does. What cannot be written is not missed.
func writeHelp(w io.Writer, command *cobra.Command) { _, _ = io.WriteString(w, helpOf(command)) }

// helpOf is the text of help, which docs/cli.md holds too.
func helpOf(command *cobra.Command) string {
	var text strings.Builder
	if !command.HasParent() {
		fmt.Fprintf(&text, "poold %s.\nusage: %s; without a COMMAND it is poold serve\n\n", command.Short, command.UseLine())
		writeCommands(&text, command)
		text.WriteString("\npoold help COMMAND shows flags and examples. A flag beats the environment, which beats the file.\n")
		return text.String()
	}
	fmt.Fprintf(&text, "usage: %s\n\n%s\n", command.UseLine(), about(command))
	if command.HasAvailableSubCommands() {
		text.WriteString("\ncommands:\n")
		writeCommands(&text, command)
		return text.String()
	}
	if command.HasExample() {
		fmt.Fprintf(&text, "\nexamples:\n%s\n", command.Example)
	}
	if flags := command.Flags(); flags.HasAvailableFlags() {
		fmt.Fprintf(&text, "\nflags:\n%s", strings.TrimLeft(flags.FlagUsagesWrapped(helpColumns), "\n"))
	}
	return text.String()
}

// about is what a command does, in sentences.
func about(command *cobra.Command) string {
	if command.Long != "" {
		return command.Long
	}
	return strings.ToUpper(command.Short[:1]) + command.Short[1:] + "."
}

func writeCommands(text *strings.Builder, command *cobra.Command) {
	widest := 0
	for _, name := range namesBelow(command) {
		widest = max(widest, len(name))
	}
	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			fmt.Fprintf(text, "  %-*s  %s\n", widest, below.Name(), below.Short)
		}
	}
}
