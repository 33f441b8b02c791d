package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"poold/internal/events"
)

// defaultEvents is the maximum number of events in a response if the query has no limit.
const defaultEvents = 50

// EventList is the response of GET /events.
type EventList struct {
	Events []events.Event `json:"events"` // the newest first; never null
}

// recentEvents is GET /events: the newest events. A key that is limited to some targets gets the events of these
// targets only.
func (s *Server) recentEvents(c *Context) error {
	limit := defaultEvents
	if err := c.ReadQuery(whole("limit", events.Newest, &limit)); err != nil {
		return err
	}
	found, err := s.Events.Recent(c.Ctx())
	if err != nil {
		return err
	}
	if c.Caller.Globs != nil {
		found = slices.DeleteFunc(found, func(e events.Event) bool { return e.Target == "" || !c.Sees(e.Target) })
	}
	return c.JSON(http.StatusOK, EventList{append([]events.Event{}, found[:min(limit, len(found))]...)})
}

// whole returns a parameter that is a whole number from 1 to the given maximum.
func whole(name string, maximum int, into *int) Param {
	return Param{Name: name, Want: fmt.Sprintf("must be a whole number from 1 to %d", maximum), Set: func(text string) (ok bool) {
		n, err := strconv.Atoi(text)
		*into = n
		return err == nil && 1 <= n && n <= maximum && strconv.Itoa(n) == text
	}}
}

// actor names the caller in an event.
func actor(c *Context) string {
	if c.Caller.Name == "" {
		return "no key"
	}
	return "key " + c.Caller.Name
}
