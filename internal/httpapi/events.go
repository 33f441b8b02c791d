package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"poold/internal/events"
	"poold/internal/httpapi/kernel"
)

// Events is the list of the events of all replicas; *events.Log implements it.
type Events interface {
	// Note adds an event. It does not block.
	Note(e events.Event)
	// Recent returns at most the given number of events, the newest first. If the argument before is
	// not "", Recent returns only events that are older than the event with this ID.
	Recent(ctx context.Context, limit int, before string) ([]events.Event, error)
}

// defaultEvents is the maximum number of events in a response if the query has no limit.
const defaultEvents = 50

// EventList is the response of GET /events.
type EventList struct {
	Events []events.Event `json:"events"`         // the newest first; never null
	Next   string         `json:"next,omitempty"` // value of the parameter before for the next page; absent on the last page
}

// eventRoutes has the route that lists the events.
type eventRoutes struct{ list Events }

// eventID matches the ID of an event.
var eventID = regexp.MustCompile(`^[1-9][0-9]{0,15}$`)

// recent is GET /events: the newest events, or the newest of the events that are older than a given
// event. A key that is limited to some targets gets the events of these targets only.
func (e eventRoutes) recent(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	values, err := kernel.ReadValues(r.URL.RawQuery, "limit", "before")
	if err != nil {
		return err
	}
	limit := defaultEvents
	if values.Has("limit") {
		limit, err = strconv.Atoi(values.Get("limit"))
		if err != nil || limit < 1 || limit > events.Newest || strconv.Itoa(limit) != values.Get("limit") {
			return kernel.NewProblem(kernel.CodeBadRequest, fmt.Sprintf("limit must be a whole number from 1 to %d", events.Newest))
		}
	}
	before := values.Get("before")
	if values.Has("before") && !eventID.MatchString(before) {
		return kernel.NewProblem(kernel.CodeBadRequest, "before must be the `id` of an event or the `next` of an earlier answer, unchanged")
	}
	read := limit + 1 // an event beyond the limit shows that there is a next page
	if c.Caller.Globs != nil {
		read = events.Newest
	}
	found, err := e.list.Recent(r.Context(), read, before)
	if err != nil {
		return err
	}
	answer := EventList{Events: []events.Event{}}
	for _, event := range found {
		switch {
		case c.Caller.Globs != nil && (event.Target == "" || !c.Sees(event.Target)):
		case len(answer.Events) == limit:
			answer.Next = answer.Events[limit-1].ID
			return kernel.RespondJSON(w, answer)
		default:
			answer.Events = append(answer.Events, event)
		}
	}
	return kernel.RespondJSON(w, answer)
}

// actor names the caller in an event.
func actor(c *kernel.Call) string {
	if c.Caller.Name == "" {
		return "no key"
	}
	return "key " + c.Caller.Name
}
