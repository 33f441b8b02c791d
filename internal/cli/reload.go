package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// reloadTime is the most that a reload may take; it waits for the workers of targets that
// go.
const reloadTime = 45 * time.Second

// newReload is `poold reload`; reload.go is the daemon's part.
func newReload(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:     "reload",
		Short:   "make a running daemon read its file again",
		Long:    "Makes a running daemon read its file again. A file with a problem changes nothing; its problems are printed.",
		Example: "  poold reload",
		Args:    Words(0),
	}
	asJSON := command.Flags().Bool("json", false, "print the part config of the status afterwards")
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		before, _ := AskStatus(command.Context(), daemon, StatusTime) // what is wrong is said below
		q := question{method: http.MethodPost, path: "/-/reload", limit: reloadTime, success: http.StatusNoContent}
		if _, _, err := daemon.exchange(command.Context(), q); err != nil {
			return err
		}
		after, err := AskStatus(command.Context(), daemon, StatusTime)
		if *asJSON {
			var config []byte
			if err == nil {
				config, err = json.Marshal(after.Config)
			}
			return c.printDone(config, err)
		}
		_, err = fmt.Fprintln(c.Stdout, reloaded(before, after))
		return err
	}
	return command
}

// reloaded says what a reload changed. What the key may not see is nil.
func reloaded(before, after *status.Document) string {
	if before == nil || after == nil {
		return "the file was read again"
	}
	was := map[string]string{}
	for i := range before.Targets {
		was[before.Targets[i].Name] = before.Targets[i].Identity
	}
	added, changed := 0, 0
	for i := range after.Targets {
		t := &after.Targets[i]
		identity, known := was[t.Name]
		switch {
		case !known:
			added++
		case identity != t.Identity:
			changed++
		}
		delete(was, t.Name)
	}
	return fmt.Sprintf("the file was read again: targets %d, of them new %d, with another identity %d; removed %d; providers %d; warnings %d",
		len(after.Targets), added, changed, len(was), len(after.Providers), len(after.Config.Warnings))
}
