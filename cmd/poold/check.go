package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"poold/internal/targets"
)

// check validates the file and prints every problem with its line.
func check(ctx context.Context, c *command) error {
	flags := newFlags(c)
	config := configFlag(flags, c)
	live := flags.Bool("live", false, "also try Redis and each provider's key, buying nothing")
	differs := flags.Bool("diff", false, "also say what applying the file to the running daemon would change")
	connect := clientFlags(flags, c)
	if _, err := c.parse(flags, 0); err != nil {
		return err
	}
	set, err := targets.NewFile(*config, c.lookup, slog.New(slog.DiscardHandler)).Load(ctx)
	var problems targets.Problems
	if errors.As(err, &problems) {
		if _, err := fmt.Fprintln(c.stdout, problems); err != nil {
			return err
		}
		return fmt.Errorf("problems in %s: %d", *config, len(problems))
	}
	if err != nil {
		return err
	}
	if set.Server.TLS.Cert != "" {
		if _, err := loadCertificate(set.Server.TLS); err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, warning := range set.Warnings {
		text.WriteString(warning.String() + " (allowed)\n")
	}
	fmt.Fprintf(&text, "%s is valid; targets: %d, providers: %d\n", *config, len(set.Targets), len(set.Providers))
	text.WriteString(spendingOf(set).report(set.Simulated()))
	if _, err := io.WriteString(c.stdout, text.String()); err != nil {
		return err
	}
	if *differs {
		daemon, err := connect()
		if err != nil {
			return err
		}
		if err := diff(ctx, c.stdout, daemon, set); err != nil {
			return err
		}
	}
	if !*live {
		return nil
	}
	wrong, err := checkLive(ctx, c.stdout, set)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("tried live, and wrong: %d", wrong)
	}
	return err
}
