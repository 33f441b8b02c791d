package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"poold/internal/captcha"
	"poold/internal/cli"
	"poold/internal/status"
	"poold/internal/targets"
)

// printDiff prints what would change if the running daemon applied the file: added and removed targets,
// targets with a different stock, and settings that need a restart. Tokens belong to an identity, so a
// target with an unchanged identity keeps its tokens.
func printDiff(ctx context.Context, c *cli.Console, connect func() (*cli.Client, error), set *targets.Set) error {
	daemon, err := connect()
	if err != nil {
		return err
	}
	running, _, err := daemon.Status(ctx)
	if err != nil {
		return err
	}
	if len(running.Config.RestartNeeded) == 0 {
		return errors.New("the daemon does not report its whole configuration: the key is limited to some targets")
	}
	var text strings.Builder
	before, names := map[string]*status.Target{}, map[captcha.ID]string{}
	for i := range running.Targets {
		t := &running.Targets[i]
		before[t.Name], names[captcha.ID(t.Identity)] = t, t.Name
	}
	stays, after := 0, map[captcha.ID]string{}
	for i := range set.Targets {
		after[set.Targets[i].ID] = set.Targets[i].Name
	}
	stockOf := func(t *status.Target) string { // describes what happens to the stock of the old target
		if name, kept := after[captcha.ID(t.Identity)]; kept {
			return "its tokens go to " + name
		}
		return fmt.Sprintf("discarded: tokens %d, orders in flight %d", t.Fresh, t.InFlight)
	}
	for i := range set.Targets {
		t := &set.Targets[i]
		old, known := before[t.Name]
		delete(before, t.Name)
		switch {
		case known && old.Identity == string(t.ID):
			stays++
		case known:
			fmt.Fprintf(&text, "~ %s changes its identity; %s\n", t.Name, stockOf(old))
		case names[t.ID] != "":
			fmt.Fprintf(&text, "+ %s is new, with the tokens of %s\n", t.Name, cli.Printable(names[t.ID]))
		default:
			fmt.Fprintf(&text, "+ %s is new\n", t.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		fmt.Fprintf(&text, "- %s is removed; %s\n", cli.Printable(name), stockOf(before[name]))
	}
	wanted := set.RestartNeeded()
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if now, known := running.Config.RestartNeeded[key]; known && now != wanted[key] {
			fmt.Fprintf(&text, "! %s needs a restart: now %s, in the file %s\n", key, cli.Printable(now), cli.Printable(wanted[key]))
		}
	}
	fmt.Fprintf(&text, "targets that keep their name and tokens: %d of %d", stays, len(set.Targets))
	return c.Print(text.String())
}
