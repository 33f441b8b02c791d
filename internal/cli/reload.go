package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// reloadTime is the timeout for a reload. The daemon answers only after the workers of removed
// targets have ended.
const reloadTime = 45 * time.Second

func newReload(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:     "reload",
		Short:   "make a running daemon read its file again",
		Long:    "Makes a running daemon read its file again. A file with a problem changes nothing; its problems are printed.",
		Example: "  poold reload",
		Args:    Words(0),
	}
	asJSON := command.Flags().Bool("json", false, "print the part config of the status afterwards")
	onDaemon(command, c, func(ctx context.Context, daemon *Client, _ []string) error {
		before, _ := AskStatus(ctx, daemon, StatusTime) // an error is ignored here, because the request for the reload will fail too
		q := apiRequest{method: http.MethodPost, path: "/-/reload", limit: reloadTime, success: http.StatusNoContent}
		if _, _, err := daemon.exchange(ctx, q); err != nil {
			return err
		}
		after, err := AskStatus(ctx, daemon, StatusTime)
		if *asJSON {
			var config []byte
			if err == nil {
				config, err = json.Marshal(after.Config)
			}
			return c.printDone(config, err)
		}
		_, err = fmt.Fprintln(c.Stdout, reloadText(before, after))
		return err
	})
	return command
}

// reloadText describes how many targets a reload changed. The arguments are the status before and
// after the reload; nil means that the status is unknown, for instance because the key may not read
// it.
func reloadText(before, after *status.Document) string {
	if before == nil || after == nil {
		return "the file was read again"
	}
	old := map[string]string{}
	for i := range before.Targets {
		old[before.Targets[i].Name] = before.Targets[i].Identity
	}
	added, changed := 0, 0
	for i := range after.Targets {
		t := &after.Targets[i]
		identity, known := old[t.Name]
		switch {
		case !known:
			added++
		case identity != t.Identity:
			changed++
		}
		delete(old, t.Name)
	}
	return fmt.Sprintf("the file was read again: targets %d, of them new %d, with another identity %d; removed %d; providers %d; warnings %d",
		len(after.Targets), added, changed, len(old), len(after.Providers), len(after.Config.Warnings))
}
