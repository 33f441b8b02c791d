package cli

import (
	"github.com/spf13/cobra"

	"poold/internal/targets"
)

// newSchema is `poold schema`.
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
