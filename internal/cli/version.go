package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// newVersion is `poold version`.
func newVersion(c *Console, p Program) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print version, commit and Go version",
		Example: "  poold version",
		Args:    Words(0),
		RunE:    func(*cobra.Command, []string) error { return p.printVersion(c) },
	}
}

// printVersion prints version, commit and Go version.
func (p Program) printVersion(c *Console) error {
	_, err := fmt.Fprintf(c.Stdout, "poold %s, commit %s, %s\n", p.Version, p.Commit, runtime.Version())
	return err
}
