package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"poold/internal/targets"
)

// check validates the file and prints every problem with its line.
func check(_ context.Context, c *command) error {
	flags := newFlags(c)
	config := configFlag(flags, c)
	if _, err := c.parse(flags, 0); err != nil {
		return err
	}
	set, err := targets.NewFile(*config, c.lookup, slog.New(slog.DiscardHandler)).Load()
	var problems targets.Problems
	if errors.As(err, &problems) {
		for _, problem := range problems {
			fmt.Fprintln(c.stdout, problem)
		}
		return fmt.Errorf("%d problems in %s", len(problems), *config)
	}
	if err != nil {
		return err
	}
	for _, warning := range set.Warnings {
		fmt.Fprintf(c.stdout, "%s (allowed)\n", warning)
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %d targets, %d providers\n", *config, len(set.Targets), len(set.Providers))
	return err
}
