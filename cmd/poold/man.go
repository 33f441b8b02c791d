package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is `poold man`, for those who make packages. Nobody else needs it: help does not
// list it.
func newMan(c *console) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the man pages of all commands into a folder",
		Example: "  poold man /usr/local/share/man/man1",
		Args:    words(0, "a folder"),
		Hidden:  true,
		RunE: func(_ *cobra.Command, words []string) error {
			if err := os.MkdirAll(words[0], 0o755); err != nil { //nolint:gosec // G301: pages for everybody
				return err
			}
			// Without the environment, which would make the defaults of all who read the pages.
			root := newRoot(&console{lookup: func(string) (string, bool) { return "", false }, stdout: c.stdout, stderr: c.stderr})
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "poold " + version}, words[0]); err != nil {
				return fmt.Errorf("writing the man pages: %w", err)
			}
			_, err := fmt.Fprintf(c.stdout, "the man pages are in %s\n", words[0])
			return err
		},
	}
}
