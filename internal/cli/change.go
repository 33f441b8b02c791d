package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/refill"
	"poold/internal/status"
)

const (
	// changeTime is the timeout for the request that changes a target.
	changeTime = 10 * time.Second
	// outcomeTime limits the wait until the status shows the outcome of a change. For `poold
	// resume`, the outcome is the provider's response to an order.
	outcomeTime = 15 * time.Second
)

type change struct {
	method, path string                         // HTTP method, and path below /pool/TARGET
	body         func() (map[string]any, error) // returns the fields of the request body; nil or an empty map = no body
	compares     bool                           // whether the command also reads the target before the change
	// decided reports whether the status of the target shows the outcome of the change. The command
	// polls the status until this function returns true, for at most outcomeTime. If the function is
	// nil, the command reads the status once.
	decided func(before, after *status.TargetDetail) bool
	// text is a function that returns a line about the change. Its arguments are the target before
	// and after the change; nil means that the target is unknown, for instance because the key may
	// not read the status.
	text func(before, after *status.TargetDetail) string
}

func newChange(c *Console, command *cobra.Command, change change) *cobra.Command {
	command.Args = Words(0, "the name of a target")
	asJSON := command.Flags().Bool("json", false, "print the changed target as JSON")
	connect := onDaemon(command, c, func(ctx context.Context, daemon *Client, words []string) error {
		q, err := change.request(words[0])
		if err != nil {
			return err
		}
		var before *status.TargetDetail
		if change.compares {
			before, _, _ = readTarget(ctx, daemon, words[0]) // an error is ignored here, because the request for the change will fail too
		}
		if _, _, err := daemon.exchange(ctx, q); err != nil {
			return err
		}
		after, body, err := change.awaitOutcome(ctx, daemon, words[0], before)
		if *asJSON {
			return c.printDone(body, err)
		}
		_, err = fmt.Fprintf(c.Stdout, "%s: %s\n", Printable(words[0]), change.text(before, after))
		return err
	})
	completeTargets(command, connect)
	return command
}

// awaitOutcome polls the status of the target after the change until the status shows the outcome.
func (c change) awaitOutcome(ctx context.Context, daemon *Client, target string, before *status.TargetDetail) (*status.TargetDetail, []byte, error) {
	for until := time.Now().Add(outcomeTime); ; {
		after, body, err := readTarget(ctx, daemon, target)
		if err != nil || c.decided == nil || before == nil || c.decided(before, after) || time.Now().After(until) {
			return after, body, err
		}
		select {
		case <-time.After(outcomeTime / 50):
		case <-ctx.Done():
			return after, body, err
		}
	}
}

func (c change) request(target string) (apiRequest, error) {
	q := apiRequest{method: c.method, path: "/pool/" + url.PathEscape(target) + c.path, limit: changeTime, success: http.StatusNoContent}
	if c.body == nil {
		return q, nil
	}
	fields, err := c.body()
	if err != nil || len(fields) == 0 {
		return q, err
	}
	q.header = http.Header{"Content-Type": {"application/json"}}
	q.body, err = json.Marshal(fields)
	return q, err
}

func readTarget(ctx context.Context, daemon *Client, target string) (*status.TargetDetail, []byte, error) {
	body, err := daemon.Ask(ctx, http.MethodGet, "/pool/"+url.PathEscape(target), "application/json", StatusTime)
	if err != nil {
		return nil, nil, err
	}
	found, err := decode[status.TargetDetail](body)
	return found, body, err
}

func newPause(c *Console) *cobra.Command {
	command := &cobra.Command{
		Use:     "pause TARGET",
		Short:   "stop buying for a target; ready tokens are still handed out",
		Long:    "Pauses a target on all replicas: poold buys no tokens for it, but still hands out ready tokens.",
		Example: "  poold pause staging-login --for 1h --reason \"the page changes\"",
	}
	flags := command.Flags()
	length := flags.Duration("for", 0, "how long, from 1s to 720h (default until it is resumed)")
	reason := flags.String("reason", "", "a `text` that the status shows, at most 200 characters")
	return newChange(c, command, change{
		method: http.MethodPost, path: "/pause",
		body: func() (map[string]any, error) {
			fields := map[string]any{}
			if flags.Changed("for") {
				fields["for"] = length.String()
			}
			if flags.Changed("reason") {
				fields["reason"] = *reason
			}
			return fields, nil
		},
		text: func(_, after *status.TargetDetail) string {
			text := "paused until it is resumed"
			if flags.Changed("for") {
				text = "paused until " + moment(time.Now().Add(*length))
			}
			if after != nil {
				text += fmt.Sprintf("; %s ready and %d on order are still handed out", tokens(after.Fresh), after.InFlight)
			}
			return text
		},
	})
}

func newResume(c *Console) *cobra.Command {
	return newChange(c, &cobra.Command{
		Use:   "resume TARGET",
		Short: "end a pause that was not made in the file, or try a refused target at once",
		Long: "Ends a pause that was made by poold pause, by the API or on the page. A pause in the file lasts until the file\n" +
			"changes. If the provider refuses the target, poold tries one order at once, and the command prints the outcome.",
		Example: "  poold resume staging-login",
	}, change{
		method: http.MethodPost, path: "/resume", compares: true, decided: resumeDecided,
		text: func(before, after *status.TargetDetail) string {
			if before != nil && before.State == refill.Refused && after != nil {
				return resumeText(before, after)
			}
			text := "buying continues"
			if after != nil {
				text += fmt.Sprintf("; %s ready, %d on order, depth %d", tokens(after.Fresh), after.InFlight, after.Depth)
			}
			return text
		},
	})
}

// resumeDecided reports whether the outcome of a resume is known. For a target with the state
// refused, the outcome is known when the provider has answered an order.
func resumeDecided(before, after *status.TargetDetail) bool {
	return before.State != refill.Refused || after.State != refill.Refused ||
		after.FailedInARow > before.FailedInARow || after.BoughtInFlight > before.BoughtInFlight
}

// resumeText describes what happened to a refused target after a resume.
func resumeText(before, after *status.TargetDetail) string {
	switch {
	case after.State != refill.Refused:
		return "the provider takes orders for it again; its state is " + after.State
	case after.FailedInARow > before.FailedInARow:
		return "tried at once, and refused again: " + after.Reason
	case after.BoughtInFlight > before.BoughtInFlight:
		return "tried at once, and the provider accepted the order; the refusal ends when this order is solved"
	}
	return "the next order is placed at once; no order is wanted now, or none was answered yet"
}

func newFlush(c *Console) *cobra.Command {
	return newChange(c, &cobra.Command{
		Use:   "flush TARGET",
		Short: "discard the ready tokens of a target",
		Long: "Discards the ready tokens of a target at once, without confirmation. poold buys new tokens, unless the target\n" +
			"is paused. Orders in flight still land.",
		Example: "  poold flush staging-login",
	}, change{
		method: http.MethodDelete, path: "/tokens", compares: true,
		text: func(before, after *status.TargetDetail) string {
			const unknown = "its ready tokens were discarded"
			if before == nil || after == nil {
				return unknown
			}
			// With many targets the status can be some seconds old, so the difference may be wrong.
			discarded := after.Discarded - before.Discarded
			if discarded < 0 || discarded == 0 && before.Fresh > 0 {
				return unknown
			}
			text := tokens(int(discarded)) + " discarded"
			if before.Solved > 0 && before.Spent > 0 {
				text += fmt.Sprintf(", worth about %s at the mean cost so far", Printable(after.Currency.With(Amount(float64(discarded)*float64(before.Spent)/float64(before.Solved)))))
			}
			return text + fmt.Sprintf("; %d on order still land", after.InFlight)
		},
	})
}
