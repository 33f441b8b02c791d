package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"poold/internal/events"
)

// defaultEvents is the maximum number of events in a response if the query has no limit.
const defaultEvents = 50

// EventList is the response of GET /events.
type EventList struct {
	Events []events.Event `json:"events"`         // the newest first; never null
	Next   string         `json:"next,omitempty"` // value of the parameter before for the next page; absent on the last page
}

// eventID matches the ID of an event.
var eventID = regexp.MustCompile(`^[1-9][0-9]{0,15}$`)

// recentEvents is GET /events: the newest events, or the newest of the events that are older than a
// given event. A key that is limited to some targets gets the events of these targets only.
func (s *Server) recentEvents(c *Context) error {
	limit, before := defaultEvents, ""
	err := c.ReadQuery(whole("limit", events.Newest, &limit), Param{
		Name: "before", Want: "must be the `id` of an event or the `next` of an earlier answer, unchanged",
		Set: func(text string) bool { before = text; return eventID.MatchString(text) },
	})
	if err != nil {
		return err
	}
	read := limit + 1 // an event beyond the limit shows that there is a next page
	if c.Caller.Globs != nil {
		read = events.Newest
	}
	found, err := s.Events.Recent(c.Ctx(), read, before)
	if err != nil {
		return err
	}
	answer := EventList{Events: []events.Event{}}
	for _, event := range found {
		switch {
		case c.Caller.Globs != nil && (event.Target == "" || !c.Sees(event.Target)):
		case len(answer.Events) == limit:
			answer.Next = answer.Events[limit-1].ID
			return c.JSON(http.StatusOK, answer)
		default:
			answer.Events = append(answer.Events, event)
		}
	}
	return c.JSON(http.StatusOK, answer)
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
