package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/targets"
)

const (
	// A window made by POST may begin at most this number of days ahead. Windows made by POST have the
	// same limits for tokens and length as windows in the configuration file.
	warmAheadDays = 30
	warmAhead     = warmAheadDays * 24 * time.Hour
	// A key without the scope admin can make at most this number of windows for a target.
	mostWindowsByToken = 10
)

// These texts describe the valid bodies of POST /pool/{target}/warm.
const (
	wantWarm = `the body must be one JSON object like {"tokens":5,"at":"2026-01-02T15:04:05Z","for":"5m"}, ` +
		`each field once; "at" is optional and defaults to now; {"tokens":0} ends all windows made by POST`
	wantWarmNumber = `"tokens" must be a whole number from 0 to 10000`
	wantWarmFor    = `"for" must be a duration with a unit from 1s to 24h, such as "5m"`
	wantWarmAt     = `"at" must be a time in RFC 3339 with its zone, such as "2026-01-02T15:04:05Z"`
)

type warmBody struct {
	tokens int           // 0 = end all windows made by POST
	at     time.Time     // zero = now
	length time.Duration // 0 if tokens is 0
}

// warm is POST /pool/{target}/warm: it makes a warm window, in which all replicas together keep a
// minimum of tokens ready.
func (a *admin) warm(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	asked, err := readWarm(r, c.W.ResponseWriter)
	if err != nil {
		return err
	}
	var limit pool.WindowLimit
	if !c.Caller.May(targets.ScopeAdmin) {
		if asked.tokens < 1 || asked.tokens > c.Target.Depth {
			return kernel.NewProblem(kernel.CodeForbidden, fmt.Sprintf(
				"the scope token suffices for 1 to %d tokens, the target's depth; other numbers need the scope admin", c.Target.Depth))
		}
		limit = pool.WindowLimit{Caller: c.Caller.Name, Most: mostWindowsByToken}
	}
	now := time.Now()
	window, err := asked.window(now)
	if err != nil {
		return err
	}
	err = a.stock.Warm(r.Context(), c.Target.ID, window, limit)
	if errors.Is(err, pool.ErrWindows) && limit.Most > 0 {
		return kernel.NewProblem(kernel.CodeWindows, fmt.Sprintf(
			"the scope token suffices for %d warm windows of a target, and the target has a maximum over all keys; one of the two is reached", limit.Most))
	}
	if err != nil {
		return err
	}
	if asked.tokens == 0 {
		return a.finishChange(w, r, c, "warm windows ended")
	}
	return a.finishChange(w, r, c, "warm window made", slog.Int("tokens", window.Tokens),
		slog.Time("from", now.Add(window.In).UTC()), slog.Time("until", now.Add(window.Left).UTC()))
}

// window returns the requested window, with times relative to the current time. If the requested
// begin is in the past, the window begins at the current time.
func (g warmBody) window(now time.Time) (pool.Window, error) {
	if g.tokens == 0 {
		return pool.Window{}, nil
	}
	if g.at.IsZero() {
		g.at = now
	}
	if g.at.Sub(now) > warmAhead {
		return pool.Window{}, kernel.NewProblem(kernel.CodeBadRequest, fmt.Sprintf(`"at" must be at most %d days ahead`, warmAheadDays))
	}
	left := g.at.Add(g.length).Sub(now)
	if left < time.Millisecond { // the stock counts in milliseconds
		return pool.Window{}, kernel.NewProblem(kernel.CodeBadRequest, `the window is over: "at" and "for" lie in the past`)
	}
	return pool.Window{Tokens: g.tokens, In: max(0, g.at.Sub(now)), Left: left}, nil
}

func readWarm(r *http.Request, w http.ResponseWriter) (warmBody, error) {
	var g warmBody
	given, err := kernel.ReadObject(r, w, wantWarm, g.set)
	if err != nil {
		return g, err
	}
	switch {
	case !given["tokens"]:
		return g, kernel.NewProblem(kernel.CodeBadRequest, wantWarm)
	case g.tokens == 0 && len(given) > 1:
		return g, kernel.NewProblem(kernel.CodeBadRequest, `{"tokens":0} ends all windows at once and takes neither "at" nor "for"`)
	case g.tokens > 0 && !given["for"]:
		return g, kernel.NewProblem(kernel.CodeBadRequest, `"for" is missing: `+wantWarmFor)
	}
	return g, nil
}

// set stores the value of a field of the body. If the value is invalid, the result is a text that
// describes the valid values.
func (g *warmBody) set(field string, value json.Token) (wrong string) {
	text, _ := value.(string) // the empty text is invalid in each field
	switch field {
	case "tokens":
		number, _ := value.(json.Number)
		tokens, err := strconv.ParseUint(number.String(), 10, 32)
		if err != nil || tokens > targets.MostDepth {
			return wantWarmNumber
		}
		g.tokens = int(tokens)
	case "for":
		length, err := time.ParseDuration(text)
		if err != nil || length < targets.ShortestWindow || length > targets.LongestWindow {
			return wantWarmFor
		}
		g.length = length
	case "at":
		at, ok := kernel.ReadTime(text)
		if !ok {
			return wantWarmAt
		}
		g.at = at
	default:
		return wantWarm
	}
	return ""
}
