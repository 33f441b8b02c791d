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

// runFollow runs follow in a synctest bubble for at most the given length, and returns the events.
func runFollow(t *testing.T, length time.Duration, stream, poll func(try int) error) (events []string, err error) {
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
				time.Sleep(4 * time.Second) // the stream ends after this time
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

// After a stream ends, follow polls once and opens the next stream. Without a stream, follow keeps
// polling. The last status stays visible during an outage.
func TestFollowPollsWithoutAStream(t *testing.T) {
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
		events, err := runFollow(t, 12*time.Second-1, c.stream, c.poll)
		if got := strings.Join(events, ", "); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
		if refused := new(refusal); !errors.Is(err, c.err) && (!errors.As(err, &refused) || refused.text != "no") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each outage is reported once, even if two outages have the same error.
func TestWatchReportsEachOutage(t *testing.T) {
	var out, log strings.Builder
	w := &watcher{Console: &Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: &out, Stderr: &log}, view: &statusView{}}
	gone := errors.New("gone")
	for _, asOf := range []string{"one", "two"} {
		if err := w.take(&status.Document{AsOf: asOf, Version: asOf}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.showOutage(gone); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := "not live, as of one: gone\nnot live, as of two: gone\n"; log.String() != want {
		t.Errorf("got\n%swant\n%s", log.String(), want)
	}
}
