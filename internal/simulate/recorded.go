package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/cli"
	"poold/internal/httpapi/historyapi"
	"poold/internal/refill/policy"
)

// recording selects the counted requests of a running daemon as the demand.
type recording struct {
	target  string // "" = none
	within  url.Values
	connect func() (*cli.Client, error)
}

func (r *recording) addFlags(command *cobra.Command, c *cli.Console) {
	r.within = url.Values{}
	flags := command.Flags()
	flags.StringVar(&r.target, "from-history", "", "instead of a trace, the arrivals of a `target` in the last 24 h, as a running daemon counted them; --target defaults to it")
	for name, usage := range map[string]string{
		"from": "with --from-history: `time` or day at which the arrivals begin (default the first known one)",
		"to":   "with --from-history: `time` or day at which the arrivals end (default now)",
	} {
		flags.Func(name, usage, func(value string) error {
			r.within.Set(name, value)
			return nil
		})
	}
	r.connect = cli.ClientFlags(command, c)
}

func (r *recording) load(ctx context.Context) (demand, error) {
	daemon, err := r.connect()
	if err != nil {
		return demand{}, err
	}
	path := "/history/arrivals/" + url.PathEscape(r.target)
	if len(r.within) > 0 {
		path += "?" + r.within.Encode()
	}
	body, err := daemon.Ask(ctx, http.MethodGet, path, "application/json", cli.HistoryTime)
	if err != nil {
		return demand{}, err
	}
	var list historyapi.ArrivalList
	if err := json.Unmarshal(body, &list); err != nil {
		return demand{}, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return demandOf(list)
}

// demandOf converts the daemon's response to a demand.
func demandOf(list historyapi.ArrivalList) (demand, error) {
	from, err := time.Parse(time.RFC3339, list.From)
	if err != nil {
		return demand{}, fmt.Errorf("reading the daemon's answer: from: %w", err)
	}
	to, err := time.Parse(time.RFC3339, list.To)
	if err != nil {
		return demand{}, fmt.Errorf("reading the daemon's answer: to: %w", err)
	}
	if list.Requests > policy.MostArrivals {
		return demand{}, fmt.Errorf("%d requests are more than can be replayed, %d: name a shorter time with --from and --to", list.Requests, policy.MostArrivals)
	}
	d := demand{arrivals: make([]float64, 0, list.Requests), start: from, length: to.Sub(from)}
	for _, step := range list.Arrivals {
		for range step.N {
			d.arrivals = append(d.arrivals, step.At)
		}
	}
	return d, nil
}
