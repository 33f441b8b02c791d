package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"poold/internal/targets"

	"github.com/spf13/cobra"
)

// newCompletion is `poold completion`.
func newCompletion(c *Console) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a script that lets a shell complete commands, flags and names of targets",
		Long: "Prints a script that lets a shell complete commands and flags, and the names of targets where a running daemon\n" +
			"tells them within a second.",
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
			return UsageError(fmt.Sprintf("knows the shells bash, zsh and fish, not %q", words[0]))
		},
	}
}

// completeTime is how long a shell waits for the names of the targets.
const completeTime = time.Second

// completeTargets has a shell complete the first word of a command, which is the name of a
// target. Where the daemon does not say it at once, nothing is offered.
func completeTargets(command *cobra.Command, connect func() (*Client, error)) {
	command.ValidArgsFunction = func(command *cobra.Command, words []string, begin string) (names []string, _ cobra.ShellCompDirective) {
		if len(words) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, name := range runningTargets(command.Context(), connect) {
			if strings.HasPrefix(name, begin) && targets.IsName(name) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// runningTargets are the names of the targets of the running daemon, none where it does
// not tell.
func runningTargets(ctx context.Context, connect func() (*Client, error)) (names []string) {
	daemon, err := connect()
	if err != nil {
		return nil
	}
	document, err := AskStatus(ctx, daemon, completeTime)
	if err != nil {
		return nil
	}
	for i := range document.Targets {
		names = append(names, document.Targets[i].Name)
	}
	return names
}
