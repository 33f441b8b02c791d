package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"poold/internal/events"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/spool"
	"poold/internal/targets"
)

// pause is POST /pool/{target}/pause: all replicas stop buying for the identity of the target.
// Tokens are still handed out, and orders in flight still land.
func (s *Server) pause(c *Context) error {
	length, reason, err := readPause(c)
	if err != nil {
		return err
	}
	var terms string       // the end and the reason, to complete a sentence
	var limits []slog.Attr // the same for the log
	if length > 0 {
		until := time.Now().Add(length).UTC()
		terms, limits = " until "+until.Format("2006-01-02 15:04")+" UTC", append(limits, slog.Time("until", until))
	}
	if reason != "" {
		terms, limits = terms+": "+reason, append(limits, slog.String("reason", reason))
	}
	by := cmp.Or(c.Caller.Name, "POST /pool/"+c.Target.Name+"/pause")
	if err := s.Pool.Pause(c.Ctx(), c.Target.ID, "paused by "+by+terms, length); err != nil {
		return err
	}
	text := "Buying for target " + c.Target.Name + " was paused" + terms + "."
	return s.finishChange(c, events.TargetPaused, text, "target paused", limits...)
}

// resume is POST /pool/{target}/resume. The route ends a pause that a POST request has set. If the
// configuration file halts the target, the target stays halted until the file is changed. If the
// target's orders fail or are refused, the next order is placed immediately.
func (s *Server) resume(c *Context) error {
	if halted := c.Target.Halted(); halted != "" {
		return NewProblem(CodePausedInFile, halted+"; remove the key there to resume")
	}
	tried, err := s.Pool.Resume(c.Ctx(), c.Target.ID)
	if err != nil {
		return err
	}
	text := "Buying for target " + c.Target.Name + " was resumed."
	return s.finishChange(c, events.TargetResumed, text, "target resumed", slog.Bool("tried_at_once", tried))
}

// flush is DELETE /pool/{target}/tokens: it drops the ready tokens, for example after a change of
// the target's page. New tokens are bought, and orders in flight still land.
func (s *Server) flush(c *Context) error {
	dropped, err := s.Pool.Flush(c.Ctx(), c.Target.ID)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("The ready tokens of target %s were flushed: %d.", c.Target.Name, dropped)
	return s.finishChange(c, events.TargetFlushed, text, "tokens flushed", slog.Int("tokens", dropped))
}

// finishChange completes a request that changed a target: it notes the event, logs the change with the name of the
// caller's key, and marks the status as stale.
func (s *Server) finishChange(c *Context, kind events.Kind, text, what string, more ...slog.Attr) error {
	s.Events.Note(events.Event{Kind: kind, Subject: c.Target.Name, Target: c.Target.Name, Actor: actor(c), Text: text})
	attrs := append([]slog.Attr{slog.String("target", c.Target.Name), slog.String("key", c.Caller.Name)}, more...)
	s.Log.LogAttrs(c.Ctx(), slog.LevelInfo, what, attrs...)
	s.Status.Changed()
	return c.NoContent(http.StatusNoContent)
}

// reload is POST /-/reload. The reload completes even if its caller hangs up.
func (s *Server) reload(c *Context) error {
	err := s.Config.Reload(context.WithoutCancel(c.Ctx()), actor(c))
	s.Status.Changed() // a refused file also changes the status
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

const (
	// A pause that ends by itself lasts at least shortestPause and at most longestPause.
	shortestPause = time.Second
	longestPause  = 30 * 24 * time.Hour
	mostReason    = 200 // characters
)

// readPause reads the body of POST /pool/{target}/pause. Without a body the pause lasts
// until an operator resumes the target.
func readPause(c *Context) (length time.Duration, reason string, err error) {
	if c.Request().ContentLength == 0 {
		return 0, "", nil
	}
	var body struct {
		For    *string
		Reason string
	}
	err = c.ReadObject(`the body must be empty, or one JSON object like {"for":"2h","reason":"..."}, each field optional`,
		&body)
	if err != nil {
		return 0, "", err
	}
	if body.For != nil {
		length, err = time.ParseDuration(*body.For)
		if err != nil || length < shortestPause || length > longestPause {
			return 0, "", NewProblem(CodeBadRequest, `"for" must be a duration with a unit from 1s to 720h, such as "2h"`)
		}
	}
	if utf8.RuneCountInString(body.Reason) > mostReason {
		return 0, "", NewProblem(CodeBadRequest, `"reason" must be one line of at most 200 characters`)
	}
	if fault := targets.TextFault(body.Reason); fault != "" {
		return 0, "", NewProblem(CodeBadRequest, `"reason" `+fault)
	}
	return length, body.Reason, nil
}

// Probe is the response of POST /providers/{provider}/probe.
type Probe struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // ok | busy | down
	Reason string `json:"reason"` // "" when ok
	Remedy string `json:"remedy"` // what an operator can do; "" = unknown
}

// probe is POST /providers/{provider}/probe, for an operator that has repaired the account: the provider is tried now
// instead of at the next automatic probe. The probe reads the balance, if the provider reports one, and allows the next
// order. The response to a failed probe also contains the state of the provider.
func (s *Server) probe(c *Context) error {
	name := c.Param("provider")
	err := s.Buyer.Probe(c.Ctx(), name)
	s.Status.Changed()
	if errors.Is(err, purchase.ErrUnknownProvider) || errors.Is(err, pool.ErrDown) {
		return err
	}
	var found provider.Condition
	for _, p := range s.Buyer.Providers(c.Ctx()) {
		if p.Name == name {
			found = p.State
		}
	}
	switch {
	case err == nil && !found.Kind.Usable():
		found.Reason, found.Remedy = "the next order tries it; the last fault was "+found.Reason, ""
	case err != nil:
		s.Log.InfoContext(c.Ctx(), "a probe of the provider failed", slog.String("provider", name), slog.Any("err", err))
		if found.Kind.Usable() {
			found.Kind, found.Reason = provider.StateDown, err.Error()
		}
	}
	state := string(found.Kind)
	text := "Provider " + name + " was probed; its state is " + state + "."
	s.Events.Note(events.Event{Kind: events.ProviderProbed, Subject: name, Actor: actor(c), Text: text})
	s.Log.InfoContext(c.Ctx(), "provider probed",
		slog.String("provider", name), slog.String("key", c.Caller.Name), slog.String("state", state))
	return c.JSON(http.StatusOK, Probe{Name: name, State: state, Reason: found.Reason, Remedy: found.Remedy})
}

// LetterList is the response of GET /dead-letters.
type LetterList struct {
	Letters []spool.Summary `json:"letters"` // never null
}

// deadLetters is GET /dead-letters: the callbacks that this replica could not store yet, without
// their tokens.
func (s *Server) deadLetters(c *Context) error {
	list, err := s.Buyer.DeadLetters()
	if err != nil { // it contains only file names
		s.Log.WarnContext(c.Ctx(), "some dead letters cannot be read", slog.Any("err", err))
	}
	return c.JSON(http.StatusOK, LetterList{append([]spool.Summary{}, list...)})
}

// Replayed is the response of POST /dead-letters/replay.
type Replayed struct {
	Replayed int    `json:"replayed"` // letters that ended their orders
	Dropped  int    `json:"dropped"`  // letters whose orders had ended
	Expired  int    `json:"expired"`  // letters whose tokens had expired
	Left     int    `json:"left"`
	Reason   string `json:"reason,omitempty"` // why some letters are left
}

// replay is POST /dead-letters/replay: it immediately retries all dead letters.
func (s *Server) replay(c *Context) error {
	outcomes, err := s.Buyer.Replay(c.Ctx())
	s.Status.Changed() // a replay that fails after some letters also changes the status
	done := Replayed{
		Replayed: outcomes[purchase.DeadLetterReplayed], Dropped: outcomes[purchase.DeadLetterDropped],
		Expired: outcomes[purchase.DeadLetterExpired],
	}
	done.Left = s.Buyer.DeadLetterCount()
	switch {
	case err != nil && done.Replayed+done.Dropped == 0:
		return err
	case err != nil:
		done.Reason = "redis does not take the others now"
	}
	return c.JSON(http.StatusOK, done)
}

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
	if c.Caller.Targets != nil {
		found = slices.DeleteFunc(found, func(e events.Event) bool { return e.Target == "" || !c.Sees(e.Target) })
	}
	return c.JSON(http.StatusOK, EventList{append([]events.Event{}, found[:min(limit, len(found))]...)})
}

// actor names the caller in an event.
func actor(c *Context) string {
	if c.Caller.Name == "" {
		return "no key"
	}
	return "key " + c.Caller.Name
}
