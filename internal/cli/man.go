package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is `poold man`, for packagers. help does not list it.
func newMan(c *Console, p Program) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the man pages of all commands into a folder",
		Example: "  poold man /usr/local/share/man/man1",
		Args:    Words(0, "a folder"),
		Hidden:  true,
		RunE: func(_ *cobra.Command, words []string) error {
			if err := os.MkdirAll(words[0], 0o755); err != nil { //nolint:gosec // G301: pages for everybody
				return err
			}
			// An empty environment: the pages must not have the packager's as defaults.
			root := p.Root(&Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: c.Stdout, Stderr: c.Stderr})
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "poold " + p.Version}, words[0]); err != nil {
				return fmt.Errorf("writing the man pages: %w", err)
			}
			_, err := fmt.Fprintf(c.Stdout, "the man pages are in %s\n", words[0])
			return err
		},
	}
}
