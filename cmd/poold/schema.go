package main

import (
	"github.com/spf13/cobra"

	"poold/internal/targets"
)

// newSchema is `poold schema`.
func newSchema(c *console) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "print the JSON Schema of pools.yaml",
		Long:    "Prints the JSON Schema of pools.yaml, for editors.",
		Example: "  poold schema > pools.schema.json",
		Args:    words(0),
		RunE: func(*cobra.Command, []string) error {
			_, err := c.stdout.Write(targets.Schema())
			return err
		},
	}
}
