package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

const (
	// changeTime is the most that a change of one target may take.
	changeTime = 10 * time.Second
	// outcomeTime is how long a command waits for the outcome of a change: a submit's answer.
	outcomeTime = 15 * time.Second
)

// change is a command that changes one target.
type change struct {
	method, path string                         // below /pool/TARGET
	body         func() (map[string]any, error) // nil = none; an empty one is not sent
	compares     bool                           // tell needs the target as it was before
	// decided reports whether the outcome of the change shows; the command waits for that, at
	// most outcomeTime. nil = it shows at once.
	decided func(before, after *status.Target) bool
	// tell says in one line what was done. The target before it and after it is nil where
	// it could not be seen, as by a key that may not: the change is made all the same.
	tell func(before, after *status.Target) string
}

// newChange completes a command that changes one target.
func newChange(c *Console, command *cobra.Command, change change) *cobra.Command {
	command.Args = Words(0, "the name of a target")
	asJSON := command.Flags().Bool("json", false, "print the target as GET /pool/TARGET shows it afterwards")
	connect := ClientFlags(command, c)
	completeTargets(command, connect)
	command.RunE = func(command *cobra.Command, words []string) error {
		q, err := change.question(words[0])
		if err != nil {
			return err
		}
		daemon, err := connect()
		if err != nil {
			return err
		}
		var before *status.Target
		if change.compares {
			before, _, _ = look(command.Context(), daemon, words[0]) // the answer to the change says what is wrong
		}
		if _, _, err := daemon.exchange(command.Context(), q); err != nil {
			return err
		}
		after, body, err := change.outcome(command.Context(), daemon, words[0], before)
		if *asJSON {
			return c.printDone(body, err)
		}
		_, err = fmt.Fprintf(c.Stdout, "%s: %s\n", Printable(words[0]), change.tell(before, after))
		return err
	}
	return command
}

// outcome looks at the target after the change, until the outcome shows.
func (c change) outcome(ctx context.Context, daemon *Client, target string, before *status.Target) (*status.Target, []byte, error) {
	for until := time.Now().Add(outcomeTime); ; {
		after, body, err := look(ctx, daemon, target)
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

// question is the request of the change.
func (c change) question(target string) (question, error) {
	q := question{method: c.method, path: "/pool/" + url.PathEscape(target) + c.path, limit: changeTime, success: http.StatusNoContent}
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

// look reads one target's part of the status.
func look(ctx context.Context, daemon *Client, target string) (*status.Target, []byte, error) {
	body, err := daemon.Ask(ctx, http.MethodGet, "/pool/"+url.PathEscape(target), "application/json", StatusTime)
	if err != nil {
		return nil, nil, err
	}
	found := new(status.Target)
	if err := json.Unmarshal(body, found); err != nil {
		return nil, nil, fmt.Errorf("reading the status: %w", err)
	}
	return found, body, nil
}
