package historyapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
)

// Arrivals reads the arrival times of requests for the tokens of a target; *history.Arrivals
// implements it.
type Arrivals interface {
	Read(ctx context.Context, target string, from, to time.Time) ([]history.Arrival, error)
}

// ArrivalList is the response of GET /history/arrivals as JSON.
type ArrivalList struct {
	Target   string        `json:"target"`
	From     string        `json:"from"`
	To       string        `json:"to"` // end of the range; exclusive
	Requests int           `json:"requests"`
	Arrivals []ArrivalStep `json:"arrivals"`
}

// ArrivalStep counts the requests in a tenth of a second.
type ArrivalStep struct {
	At float64 `json:"at"` // seconds from ArrivalList.From
	N  int     `json:"n"`
}

// ArrivalTimes is GET /history/arrivals/{target}: the arrival times of requests, as JSON or, if the caller
// prefers text/plain, as a trace for `poold simulate`.
func (h *Routes) ArrivalTimes(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	values, err := kernel.ReadValues(r.URL.RawQuery, "from", "to")
	if err != nil {
		return err
	}
	from, to, err := readRange(values)
	if err != nil {
		return err
	}
	if h.Arrivals == nil {
		return errNoHistory()
	}
	all := from.IsZero()
	if from, to, err = keptRange(from, to, time.Now().UTC()); err != nil {
		return err
	}
	found, err := read(r, func(ctx context.Context) ([]history.Arrival, error) {
		return h.Arrivals.Read(ctx, c.Target.Name, from, to)
	})
	if err != nil {
		return err
	}
	if all && len(found) > 0 {
		from = found[0].At.Truncate(time.Minute)
	}
	list := ArrivalList{Target: c.Target.Name, From: kernel.Stamp(from), To: kernel.Stamp(to), Arrivals: make([]ArrivalStep, len(found))}
	for i, a := range found {
		list.Arrivals[i] = ArrivalStep{At: float64(a.At.Sub(from).Milliseconds()) / 1000, N: a.Count}
		list.Requests += a.Count
	}
	kernel.AnswerWithin(w, kernel.WriteLimit)
	w.Header()["Vary"] = kernel.VaryAccept
	if !kernel.Prefers(r.Header["Accept"], "text/plain") {
		return kernel.RespondJSON(w, list)
	}
	list.writeTrace(w)
	return nil
}

// keptRange sets the defaults of a range: by default a range begins with the oldest kept arrivals
// and ends at the current time. A range is refused if it is empty or begins before the oldest kept
// arrivals.
func keptRange(from, to, now time.Time) (time.Time, time.Time, error) {
	oldest := now.Add(-history.ArrivalsKept).Truncate(time.Minute)
	if to.IsZero() || to.After(now) {
		to = now
	}
	if from.IsZero() {
		from = oldest
	}
	if from.Before(oldest) || !from.Before(to) {
		return from, to, kernel.NewProblem(kernel.CodeBadRequest, fmt.Sprintf(
			"from and to must span some time between %s and now: arrivals are kept for %v hours", kernel.Stamp(oldest), history.ArrivalsKept.Hours()))
	}
	return from, to, nil
}

// writeTrace writes one line with the arrival time for each request. writeTrace ignores write
// errors.
func (l *ArrivalList) writeTrace(w http.ResponseWriter) {
	w.Header()["Content-Type"] = kernel.TypeText
	w.Header().Set("Cache-Control", "no-store")
	text := bufio.NewWriter(w)
	for _, a := range l.Arrivals {
		line := strconv.FormatFloat(a.At, 'f', -1, 64) + "\n"
		for range a.N {
			_, _ = text.WriteString(line)
		}
	}
	_ = text.Flush()
}
