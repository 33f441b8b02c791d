package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/status"
)

// following runs follow in a bubble until it ends, or for a time, and returns its events.
func following(t *testing.T, length time.Duration, stream, poll func(try int) error) (events []string, err error) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		streams, polls, began := 0, 0, time.Now()
		note := func(format string, args ...any) {
			events = append(events, fmt.Sprintf("%v ", time.Since(began))+fmt.Sprintf(format, args...))
		}
		err = follow(ctx,
			func(d *status.Document) error { note("%s", d.Version); return nil },
			func(err error) error { note("away: %v", err); return nil },
			func(ctx context.Context, take taker) error {
				streams++
				if err := stream(streams); err != nil {
					return err
				}
				_ = take(&status.Document{Version: "streamed"})
				time.Sleep(4 * time.Second) // then it ends
				return nil
			},
			func(ctx context.Context, take taker) error {
				polls++
				if err := poll(polls); err != nil {
					return err
				}
				return take(&status.Document{Version: "polled"})
			})
	})
	return events, err
}

// After the end of a stream comes a poll and the next attempt. Without a stream the status is
// polled. The shown text stays while the daemon does not answer.
func TestFollow(t *testing.T) {
	gone := errors.New("gone")
	never := func(int) error { return gone }
	always := func(int) error { return nil }
	for name, c := range map[string]struct {
		stream, poll func(int) error
		want         string
		err          error
	}{
		"streams":         {always, always, "0s streamed, 4s polled, 7s streamed, 11s polled", context.DeadlineExceeded},
		"no streams":      {never, always, "0s polled, 3s polled, 6s polled, 9s polled", context.DeadlineExceeded},
		"nobody answers":  {never, never, "", gone},
		"away for a time": {never, func(n int) error { return map[bool]error{true: gone}[n == 2 || n == 3] }, "0s polled, 3s away: gone, 6s away: gone, 9s polled", context.DeadlineExceeded},
		"the key is refused later": {never, func(n int) error {
			if n == 2 {
				return &refusal{status: http.StatusUnauthorized, text: "no"}
			}
			return nil
		}, "0s polled", &refusal{}},
	} {
		events, err := following(t, 12*time.Second-1, c.stream, c.poll)
		if got := strings.Join(events, ", "); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
		if refused := new(refusal); !errors.Is(err, c.err) && (!errors.As(err, &refused) || refused.text != "no") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
