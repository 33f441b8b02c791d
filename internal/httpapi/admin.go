package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
	"unicode/utf8"

	"poold/internal/captcha"
	"poold/internal/events"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/spool"
	"poold/internal/status"
	"poold/internal/targets"
)

// reloadLimit limits the duration of a reload, because a reload waits for the workers of removed
// targets.
const reloadLimit = 30 * time.Second

// Controls changes the stock of an identity and the buying for it, at all replicas; *pool.Pool implements it.
type Controls interface {
	Pause(ctx context.Context, id captcha.ID, reason string, length time.Duration) error
	// Resume also lets an identity whose orders fail place its next order at once; then tried is true.
	Resume(ctx context.Context, id captcha.ID) (tried bool, err error)
	Flush(ctx context.Context, id captcha.ID) (dropped int, err error)
}

// Operations contains an operator's actions on providers and dead letters; *purchase.Buyer
// implements them.
type Operations interface {
	// Probe tries a provider immediately. Its error is purchase.ErrUnknownProvider, that of the service, or
	// pool.ErrDown.
	Probe(ctx context.Context, provider string) error
	Providers(ctx context.Context) []purchase.Status
	// DeadLetters returns the callbacks that could not be stored, and an error if some of the dead
	// letters cannot be read.
	DeadLetters() ([]spool.Summary, error)
	DeadLetterCount() (letters, aside int)
	// Replay retries all dead letters, and counts their outcomes. An error means that Redis does not take them.
	Replay(ctx context.Context) (outcomes map[string]int, err error)
}

// Reloader reads the configuration file. Reload fails with targets.Problems if the file is invalid.
// The argument `by` is the name of the requester, for the log.
type Reloader interface {
	Reload(ctx context.Context, by string) error
}

// admin contains the routes for operators.
type admin struct {
	pool   Controls
	file   Reloader
	buyer  Operations
	status *status.Collector
	events Events
	log    *slog.Logger
}

// pause is POST /pool/{target}/pause: all replicas stop buying for the identity of the target.
// Tokens are still handed out, and orders in flight still land.
func (a *admin) pause(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	length, reason, err := readPause(r, c.W.ResponseWriter)
	if err != nil {
		return err
	}
	var terms string       // the end and the reason, as the rest of a sentence
	var limits []slog.Attr // the same for the log
	if length > 0 {
		until := time.Now().Add(length).UTC()
		terms, limits = " until "+until.Format("2006-01-02 15:04")+" UTC", append(limits, slog.Time("until", until))
	}
	if reason != "" {
		terms, limits = terms+": "+reason, append(limits, slog.String("reason", reason))
	}
	by := cmp.Or(c.Caller.Name, "POST /pool/"+c.Target.Name+"/pause")
	if err := a.pool.Pause(r.Context(), c.Target.ID, "paused by "+by+terms, length); err != nil {
		return err
	}
	a.note(c, events.TargetPaused, "Buying for target "+c.Target.Name+" was paused"+terms+".")
	return a.finishChange(w, r, c, "target paused", limits...)
}

// resume is POST /pool/{target}/resume. The route ends a pause that a POST request has set. If the
// configuration file halts the target, the target stays halted until the file is changed. If the
// target's orders fail or are refused, the next order is placed immediately.
func (a *admin) resume(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	switch {
	case c.Target.Paused:
		return kernel.NewProblem(kernel.CodePausedInFile, "the configuration file has `paused: true` for this target; remove it there to resume")
	case c.Target.Withheld:
		return kernel.NewProblem(kernel.CodePausedInFile, c.Target.Halted()+"; remove the key there to buy from the real provider")
	}
	tried, err := a.pool.Resume(r.Context(), c.Target.ID)
	if err != nil {
		return err
	}
	a.note(c, events.TargetResumed, "Buying for target "+c.Target.Name+" was resumed.")
	return a.finishChange(w, r, c, "target resumed", slog.Bool("tried_at_once", tried))
}

// flush is DELETE /pool/{target}/tokens: it drops the ready tokens, for example after a change of
// the target's page. New tokens are bought, and orders in flight still land.
func (a *admin) flush(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	dropped, err := a.pool.Flush(r.Context(), c.Target.ID)
	if err != nil {
		return err
	}
	a.note(c, events.TargetFlushed, fmt.Sprintf("The ready tokens of target %s were discarded: %d.", c.Target.Name, dropped))
	return a.finishChange(w, r, c, "tokens flushed", slog.Int("tokens", dropped))
}

// note records the event for a request that changed a target.
func (a *admin) note(c *kernel.Call, kind events.Kind, text string) {
	a.events.Note(events.Event{Kind: kind, Subject: c.Target.Name, Target: c.Target.Name, Actor: actor(c), Text: text})
}

// finishChange completes a request that changed a target: it logs the name of the caller's key, and marks the status as
// stale.
func (a *admin) finishChange(w http.ResponseWriter, r *http.Request, c *kernel.Call, what string, more ...slog.Attr) error {
	attrs := append([]slog.Attr{slog.String("target", c.Target.Name), slog.String("key", c.Caller.Name)}, more...)
	a.log.LogAttrs(r.Context(), slog.LevelInfo, what, attrs...)
	a.status.Changed()
	c.Target.Changed()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// reload is POST /-/reload. The reload completes even if its caller hangs up.
func (a *admin) reload(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadLimit)
	defer cancel()
	err := a.file.Reload(ctx, actor(c))
	kernel.AnswerWithin(w, kernel.WriteLimit)
	a.status.Changed() // a refused file also changes the status
	if err != nil && ctx.Err() != nil {
		p := kernel.NewProblem(kernel.CodeInternal, "the reload did not finish in time; /status.json shows the configuration in use")
		p.Cause = err
		return p
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

const (
	// A pause with an end must last at least shortestPause and at most longestPause.
	shortestPause = time.Second
	longestPause  = 30 * 24 * time.Hour
	mostReason    = 200 // characters
)

// These texts describe the valid bodies of POST /pool/{target}/pause.
const (
	wantPause       = `the body must be empty, or one JSON object like {"for":"2h","reason":"..."}, each field optional and at most once`
	wantPauseFor    = `"for" must be a duration with a unit from 1s to 720h, such as "2h"`
	wantPauseReason = `"reason" must be one line of at most 200 characters`
)

// readPause reads the body of POST /pool/{target}/pause. Without a body the pause lasts
// until an operator resumes the target.
func readPause(r *http.Request, w http.ResponseWriter) (length time.Duration, reason string, err error) {
	if r.ContentLength == 0 || r.Body == http.NoBody {
		return 0, "", nil
	}
	_, err = kernel.ReadObject(r, w, wantPause, func(field string, value json.Token) (wrong string) {
		text, isText := value.(string)
		switch field {
		case "for":
			var bad error
			if length, bad = time.ParseDuration(text); bad != nil || length < shortestPause || length > longestPause {
				return wantPauseFor
			}
		case "reason":
			if !isText || utf8.RuneCountInString(text) > mostReason {
				return wantPauseReason
			}
			if fault := targets.TextFault(text); fault != "" {
				return `"reason" ` + fault
			}
			reason = text
		default:
			return wantPause
		}
		return ""
	})
	return length, reason, err
}

// Probe is the response of POST /providers/{provider}/probe.
type Probe struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // ok | busy | down
	Reason string `json:"reason"` // "" when ok
	Remedy string `json:"remedy"` // what an operator can do; "" = unknown
}

// probe is POST /providers/{provider}/probe, for an operator that has repaired the account: the
// provider is tried now instead of at the next automatic probe. The probe reads the balance, if the
// provider reports one, and allows the next order. A failed probe is answered with the state, too.
func (a *admin) probe(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	name := c.Param(r, 0)
	err := a.buyer.Probe(r.Context(), name)
	kernel.AnswerWithin(w, kernel.WriteLimit) // a provider that does not answer uses up the whole limit
	a.status.Changed()
	if errors.Is(err, purchase.ErrUnknownProvider) {
		return kernel.NewProblem(kernel.CodeUnknownProvider, "the configuration file has no provider of this name")
	}
	if errors.Is(err, pool.ErrDown) {
		return err
	}
	var s provider.State
	for _, p := range a.buyer.Providers(r.Context()) {
		if p.Name == name {
			s = p.State
		}
	}
	if err != nil {
		a.log.InfoContext(r.Context(), "a probe of the provider failed", slog.String("provider", name), slog.Any("err", err))
		if s.Kind.Usable() {
			s.Kind, s.Reason = provider.StateDown, err.Error()
		}
	}
	state := string(s.Kind)
	text := "Provider " + name + " was probed; its state is " + state + "."
	a.events.Note(events.Event{Kind: events.ProviderProbed, Subject: name, Actor: actor(c), Text: text})
	a.log.InfoContext(r.Context(), "provider probed",
		slog.String("provider", name), slog.String("key", c.Caller.Name), slog.String("state", state))
	return kernel.RespondJSON(w, Probe{Name: name, State: state, Reason: s.Reason, Remedy: s.Remedy})
}

// LetterList is the response of GET /dead-letters.
type LetterList struct {
	Letters    []spool.Summary `json:"letters"`              // never null
	Incomplete bool            `json:"incomplete,omitempty"` // some dead letters cannot be read
}

// deadLetters is GET /dead-letters: the callbacks that this replica could not store yet, without
// their tokens.
func (a *admin) deadLetters(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	list, err := a.buyer.DeadLetters()
	if err != nil { // the buyer has logged the error, which contains only file names
		a.log.DebugContext(r.Context(), "some dead letters cannot be read", slog.Any("err", err))
	}
	return kernel.RespondJSON(w, LetterList{Letters: append([]spool.Summary{}, list...), Incomplete: err != nil})
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
func (a *admin) replay(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	outcomes, err := a.buyer.Replay(r.Context())
	a.status.Changed() // a replay that fails after some letters also changes the status
	kernel.AnswerWithin(w, kernel.WriteLimit)
	done := Replayed{
		Replayed: outcomes[purchase.DeadLetterReplayed], Dropped: outcomes[purchase.DeadLetterDropped],
		Expired: outcomes[purchase.DeadLetterExpired],
	}
	done.Left, _ = a.buyer.DeadLetterCount()
	switch {
	case err != nil && done.Replayed+done.Dropped == 0:
		return err
	case err != nil:
		done.Reason = "redis does not take the others now"
	}
	return kernel.RespondJSON(w, done)
}
