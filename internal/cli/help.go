package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"poold/internal/targets"
)

const (
	helpColumns  = 100         // maximum width of a line in the help of flags
	completeTime = time.Second // timeout for the names of the targets in shell completion
)

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
			return about.Help()
		},
		ValidArgsFunction: func(command *cobra.Command, words []string, begin string) (names []string, _ cobra.ShellCompDirective) {
			if about, rest, err := command.Root().Find(words); err == nil && len(rest) == 0 {
				names = namesBelow(about)
			}
			return startingWith(begin, names), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// helpOf returns the help text of a command. docs/cli.md contains the same text, and a test
// compares the two.
func helpOf(command *cobra.Command) string {
	var text strings.Builder
	if !command.HasParent() {
		fmt.Fprintf(&text, "poold %s.\nusage: %s; without a COMMAND it is poold serve\n\n", command.Short, command.UseLine())
		writeCommands(&text, command)
		text.WriteString("poold help COMMAND shows flags and examples. A flag overrides the environment, which overrides the file.\n")
		return text.String()
	}
	about := command.Long
	if about == "" {
		about = strings.ToUpper(command.Short[:1]) + command.Short[1:] + "."
	}
	fmt.Fprintf(&text, "usage: %s\n\n%s\n", command.UseLine(), about)
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

func writeCommands(text *strings.Builder, command *cobra.Command) {
	t := &table{indent: "  "}
	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			t.row(below.Name(), below.Short)
		}
	}
	text.WriteString(t.text(0))
}

func newCompletion(c *Console) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a script that lets a shell complete commands, flags and names of targets",
		Long: "Prints a script that lets a shell complete commands and flags, and the names of targets if a running daemon\n" +
			"answers within a second.",
		Example: "  poold completion bash > /etc/bash_completion.d/poold\n" +
			"  poold completion zsh > \"${fpath[1]}/_poold\"\n" +
			"  poold completion fish > ~/.config/fish/completions/poold.fish",
		Args:      Words(0, "the name of a shell: bash, zsh or fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(command *cobra.Command, words []string) error {
			root := command.Root()
			switch words[0] {
			case "bash":
				return root.GenBashCompletionV2(c.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(c.Stdout)
			case "fish":
				return root.GenFishCompletion(c.Stdout, true)
			}
			return UsageError(fmt.Sprintf("needs the name of a shell, bash, zsh or fish, not %q", words[0]))
		},
	}
}

// completeTargets sets the shell completion of a command's arguments. For the first argument, the
// completion offers the names of the daemon's targets. For further arguments, it offers the given
// choices. If the daemon does not answer within completeTime, the completion offers no names.
func completeTargets(command *cobra.Command, connect func() (*Client, error), choices ...string) {
	command.ValidArgsFunction = func(command *cobra.Command, words []string, begin string) ([]string, cobra.ShellCompDirective) {
		offered := choices
		if len(words) == 0 {
			offered = targetNames(command.Context(), connect)
		}
		return startingWith(begin, offered), cobra.ShellCompDirectiveNoFileComp
	}
}

// targetNames gets the names of the targets from the running daemon. If the daemon does not answer,
// the result is nil. Invalid names are omitted, because a shell could execute parts of such names.
func targetNames(ctx context.Context, connect func() (*Client, error)) (names []string) {
	daemon, err := connect()
	if err != nil {
		return nil
	}
	document, err := AskStatus(ctx, daemon, completeTime)
	if err != nil {
		return nil
	}
	for i := range document.Targets {
		if name := document.Targets[i].Name; targets.IsName(name) {
			names = append(names, name)
		}
	}
	return names
}

func startingWith(begin string, words []string) (matching []string) {
	for _, word := range words {
		if strings.HasPrefix(word, begin) {
			matching = append(matching, word)
		}
	}
	return matching
}

// newMan returns the command `poold man`, which is for packagers. The help does not list this
// command.
func newMan(c *Console, p Program) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the man pages of all commands into a folder",
		Example: "  poold man /usr/local/share/man/man1",
		Args:    Words(0, "a folder"),
		Hidden:  true,
		RunE: func(_ *cobra.Command, words []string) error {
			if err := os.MkdirAll(words[0], 0o755); err != nil { //nolint:gosec // G301: all users must be able to read the pages
				return err
			}
			// The environment is empty, because the pages must not contain defaults from the packager's
			// environment.
			root := p.Root(&Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: c.Stdout, Stderr: c.Stderr})
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "poold " + p.Version}, words[0]); err != nil {
				return fmt.Errorf("writing the man pages: %w", err)
			}
			_, err := fmt.Fprintf(c.Stdout, "the man pages are in %s\n", words[0])
			return err
		},
	}
}
