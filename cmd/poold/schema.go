package main

import (
	"context"

	"poold/internal/targets"
)

// printSchema prints the JSON Schema of pools.yaml, for editors.
func printSchema(_ context.Context, c *command) error {
	if _, err := c.parse(newFlags(c), 0); err != nil {
		return err
	}
	_, err := c.stdout.Write(targets.Schema())
	return err
}
