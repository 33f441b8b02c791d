package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"poold/internal/strictjson"
)

// Copy rebuilds the document from the events of a Feed, for a program that reads the stream. A Copy
// belongs to one goroutine; the zero Copy has no document yet.
type Copy struct {
	members map[string]json.RawMessage // fields of the document by name, without the targets
	targets map[string]Target          // by name
}

// Take applies an event. Events with unknown names are ignored.
func (c *Copy) Take(name string, data []byte) error {
	if name != EventStatus && name != EventChange {
		return nil
	}
	var members map[string]json.RawMessage
	var event struct {
		Targets []Target
		Gone    []string
	}
	if err := errors.Join(json.Unmarshal(data, &members), json.Unmarshal(data, &event)); err != nil {
		return fmt.Errorf("reading an event of the status: %w", err)
	}
	if name == EventStatus {
		*c = Copy{members: map[string]json.RawMessage{}, targets: map[string]Target{}}
	} else if c.members == nil {
		return errors.New("the stream of the status began with a change")
	}
	for i := range event.Targets {
		c.targets[event.Targets[i].Name] = event.Targets[i]
	}
	for _, gone := range event.Gone {
		delete(c.targets, gone)
	}
	delete(members, "targets")
	delete(members, "gone")
	maps.Copy(c.members, members)
	return nil
}

// Document returns the current document. The targets of the document are read-only, because later
// documents share these targets.
func (c *Copy) Document() (*Document, error) {
	document := &Document{Targets: make([]Target, 0, len(c.targets))}
	if err := json.Unmarshal(strictjson.Encode(c.members), document); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.targets)) {
		document.Targets = append(document.Targets, c.targets[name])
	}
	return document, nil
}
