package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Copy is a document as the events of a Feed tell it, at the other end of a stream. It is
// for one goroutine; the zero Copy has no document yet.
type Copy struct {
	members map[string]json.RawMessage // of the document but the targets
	targets map[string]json.RawMessage // by name
}

// Take puts an event in place. One of another name is ignored.
func (c *Copy) Take(name string, data []byte) error {
	if name != EventStatus && name != EventChange {
		return nil
	}
	var members map[string]json.RawMessage
	var told struct {
		Targets []json.RawMessage
		Gone    []string
	}
	if err := errors.Join(json.Unmarshal(data, &members), json.Unmarshal(data, &told)); err != nil {
		return fmt.Errorf("reading an event of the status: %w", err)
	}
	if name == EventStatus {
		*c = Copy{members: map[string]json.RawMessage{}, targets: map[string]json.RawMessage{}}
	} else if c.members == nil {
		return errors.New("the stream of the status began with a change")
	}
	for _, text := range told.Targets {
		var target struct{ Name string }
		if err := json.Unmarshal(text, &target); err != nil {
			return fmt.Errorf("reading an event of the status: %w", err)
		}
		c.targets[target.Name] = text
	}
	for _, gone := range told.Gone {
		delete(c.targets, gone)
	}
	delete(members, "targets")
	delete(members, "gone")
	maps.Copy(c.members, members)
	return nil
}

// Document is what is known now; it is the caller's.
func (c *Copy) Document() (*Document, error) {
	list := make([]json.RawMessage, 0, len(c.targets))
	for _, name := range slices.Sorted(maps.Keys(c.targets)) {
		list = append(list, c.targets[name])
	}
	whole := maps.Clone(c.members)
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("putting the status together: %w", err)
	}
	whole["targets"] = text
	if text, err = json.Marshal(whole); err != nil {
		return nil, fmt.Errorf("putting the status together: %w", err)
	}
	document := new(Document)
	if err := json.Unmarshal(text, document); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	return document, nil
}
