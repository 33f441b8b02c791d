package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"poold/internal/status"
)

const watchEvery = 2 * time.Second

// watch prints the status every watchEvery, until ctx ends. On a terminal each status replaces the
// last one. After the first status, watch reports an outage of the daemon and continues.
func watch(ctx context.Context, c *Console, daemon *Client, v *statusView) error {
	for known := false; ; known = true {
		document, err := askStatus(ctx, daemon, v.query(), StatusTime)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // an interrupt by the user is the normal end
		case err == nil && v.json:
			err = c.printJSON(v.part(document))
		case err == nil:
			err = v.draw(c, document)
		case known && !isRefused(err):
			_, err = fmt.Fprintf(c.Stderr, "not live: %s\n", Printable(err.Error()))
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// isRefused reports whether the daemon refused the key, so that a further attempt would fail too.
func isRefused(err error) bool {
	var refused *refusal
	return errors.As(err, &refused) && (refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden)
}

// draw prints the status below its time. On a terminal the text replaces the screen. It is cut to the
// height of the terminal, which would otherwise hide the first lines.
func (v *statusView) draw(c *Console, d *status.Document) error {
	screen, home := c.screen(), ""
	lines := strings.Split("as of "+Printable(d.AsOf)+"\n"+v.text(d, screen), "\n")
	if screen.lines > 1 {
		home = "\x1b[H\x1b[J"
		lines = lines[:min(len(lines), screen.lines)]
	}
	_, err := fmt.Fprint(c.Stdout, home, strings.Join(lines, "\n"))
	return err
}
