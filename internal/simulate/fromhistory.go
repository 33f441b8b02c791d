package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"poold/internal/cli"
	"poold/internal/history"
)

// fromHistory asks a daemon for the requests of a key during the last period, for one target or for all. It returns the
// times of the requests in seconds after the first request, ascending, and the time of the first request.
func fromHistory(ctx context.Context, daemon *cli.Client, key, target string,
	last time.Duration) (arrivals []float64, first time.Time, err error) {
	query := url.Values{"from": {time.Now().Add(-last).UTC().Format(time.RFC3339)},
		"limit": {strconv.Itoa(history.MostLimit)}}
	var times []time.Time
	for more := true; more; {
		text, err := daemon.Get(ctx, "/history/key/"+url.PathEscape(key)+"?"+query.Encode())
		if err != nil {
			return nil, first, err
		}
		var page struct {
			Records []history.Handout
			Next    string
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, first, fmt.Errorf("reading the daemon's answer: %w", err)
		}
		for _, h := range page.Records {
			asked := h.Action == history.Taken || h.Action == history.Bought || h.Action == history.Missed
			if asked && (target == "" || h.Target == target) {
				times = append(times, h.At.Time)
			}
		}
		query.Set("cursor", page.Next)
		more = page.Next != ""
	}
	if len(times) == 0 {
		return nil, first, fmt.Errorf(
			"the history has no request of the key %q in the last %v; see `poold history key %s`, or give a longer --length",
			key, last, key)
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, at := range times {
		arrivals = append(arrivals, at.Sub(times[0]).Seconds())
	}
	return arrivals, times[0], nil
}
