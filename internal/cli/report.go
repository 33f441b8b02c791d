package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newReport(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "report [TARGET] ID accepted|rejected",
		Short: "report whether a site accepted a token",
		Long: "Reports once whether a site accepted a token, with the key that took it. ID is the id in the answer to\n" +
			"poold token --json; the id of poold solve --json needs no TARGET.",
		Example: "  poold report staging-login 0123456789 rejected\n" +
			"  poold report 0123456789 accepted",
		Args: Words(1, "the id of a token", "the word accepted or rejected"),
	}
	asJSON := command.Flags().Bool("json", false, "print what was reported as JSON")
	connect := onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		outcome, id := words[len(words)-1], words[len(words)-2]
		if outcome != "accepted" && outcome != "rejected" {
			return UsageError(fmt.Sprintf("the last word is accepted or rejected, not %q", outcome))
		}
		report := struct {
			Target  string `json:"target,omitempty"`
			ID      string `json:"id"`
			Outcome string `json:"outcome"`
		}{ID: id, Outcome: outcome}
		path := "/solve/" + url.PathEscape(id) + "/report"
		if len(words) > 2 {
			report.Target = words[0]
			path = "/pool/" + url.PathEscape(words[0]) + "/token/" + url.PathEscape(id) + "/report"
		}
		if _, _, err := daemon.exchange(ctx, apiRequest{
			method: http.MethodPost, path: path, header: http.Header{"Content-Type": {"application/json"}},
			body: []byte(`{"outcome":"` + outcome + `"}`), limit: changeTime, success: http.StatusNoContent,
		}); err != nil {
			return err
		}
		if *asJSON {
			return c.printJSON(report)
		}
		_, err := fmt.Fprintf(c.Stdout, "1 token reported as %s\n", outcome)
		return err
	})
	completeTargets(command, connect, "accepted", "rejected")
	return command
}
