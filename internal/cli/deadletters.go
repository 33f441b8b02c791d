package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/httpapi"
	"poold/internal/purchase"
)

// replayTime is the most that a replay may take; each letter is an exchange
// with Redis.
const replayTime = 5 * time.Minute

// newDeadLetters is `poold dead-letters`.
func newDeadLetters(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "dead-letters COMMAND",
		Short: "callbacks that a running daemon could not store",
		Long:  "Lists the callbacks that a running daemon could not store, or has it try them again.",
	}
	addCommands(command,
		newLetters(c, &cobra.Command{
			Use: "list", Short: "list the callbacks that wait, without tokens", Example: "  poold dead-letters list",
		}, question{method: http.MethodGet, path: "/dead-letters", limit: 10 * time.Second}, letterTable),
		newLetters(c, &cobra.Command{
			Use: "replay", Short: "try now to store them", Example: "  poold dead-letters replay",
		}, question{method: http.MethodPost, path: "/dead-letters/replay", limit: replayTime}, replayLine),
	)
	return command
}

// newLetters completes a command that asks one question and shows the answer.
func newLetters(c *Console, command *cobra.Command, q question, show func([]byte) (string, error)) *cobra.Command {
	command.Args = Words(0)
	asJSON := command.Flags().Bool("json", false, "print the daemon's answer itself")
	connect := ClientFlags(command, c)
	command.RunE = func(command *cobra.Command, _ []string) error {
		daemon, err := connect()
		if err != nil {
			return err
		}
		q.header = http.Header{"Accept": {"application/json"}}
		_, body, err := daemon.exchange(command.Context(), q)
		if err != nil {
			return err
		}
		if *asJSON {
			return c.printAlone(body)
		}
		text, err := show(body)
		if err != nil {
			return fmt.Errorf("reading the daemon's answer: %w", err)
		}
		_, err = fmt.Fprintln(c.Stdout, strings.TrimRight(text, "\n"))
		return err
	}
	return command
}

// letterTable makes a table of the daemon's list.
func letterTable(body []byte) (string, error) {
	var list httpapi.LetterList
	if err := json.Unmarshal(body, &list); err != nil {
		return "", err
	}
	var text strings.Builder
	if list.Incomplete {
		text.WriteString("some dead letters cannot be read; the daemon's log says which\n")
	} else if len(list.Letters) == 0 {
		return "there are no dead letters", nil
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // into memory
	row("ORDER\tPROVIDER\tTASK\tKIND\tCODE\tARRIVED\tAGE\tUSELESS AFTER\tBYTES\tREASON\n")
	for _, l := range list.Letters {
		row("%s\t%s\t%s\t%s\t%s\t%s\t%v\t%s\t%d\t%s\n", plain(l.Order), plain(l.Provider), plain(l.Task), plain(l.Kind), plain(l.Code),
			l.Arrived.UTC().Format(time.RFC3339), time.Duration(l.Age)*time.Second, l.Until.UTC().Format(time.RFC3339), l.Size, plain(l.Reason))
	}
	err := table.Flush()
	return text.String(), err
}

// replayLine says how a replay went.
func replayLine(body []byte) (string, error) {
	var r purchase.Replayed
	if err := json.Unmarshal(body, &r); err != nil {
		return "", err
	}
	line := fmt.Sprintf("%d replayed, %d whose orders had ended, %d too old, %d left", r.Replayed, r.Dropped, r.Expired, r.Left)
	if r.Reason != "" {
		line += ": " + plain(r.Reason)
	}
	return line, nil
}
