package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
)

// reloadLimit bounds a reload, which waits for the workers of removed targets.
const reloadLimit = 30 * time.Second

// Controls change what is bought and kept for one identity, over all replicas.
type Controls interface {
	Pause(ctx context.Context, id captcha.ID, p pool.Pause) error
	Resume(ctx context.Context, id captcha.ID) error
	// Retry lets an identity whose orders fail place its next order at once.
	Retry(ctx context.Context, id captcha.ID) (bounded bool, err error)
	// Flush throws the tokens away and says how many could have been handed out.
	Flush(ctx context.Context, id captcha.ID, margin time.Duration) (thrown int, err error)
}

// Kicker makes refill look at an identity soon. It does not block.
type Kicker interface {
	Kick(id captcha.ID)
}

// Reloader reads the configuration file now; targets.Problems says what is wrong with
// it.
type Reloader interface {
	Reload(ctx context.Context) error
}

// Changes takes notice that the last snapshot is out of date; *status.Collector
// implements it.
type Changes interface {
	Changed()
}

// admin are the routes of an operator, and of who warms a target.
type admin struct {
	stock   Controls
	windows Warmer
	refill  Kicker
	file    Reloader
	status  Changes
	log     *slog.Logger
}

// pause is POST /pool/{target}/pause: no replica buys for the target's
// identity any more. Stock is still handed out, orders under way still land.
func (a *admin) pause(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	pause, err := readPause(r, c.W.ResponseWriter)
	if err != nil {
		return err
	}
	pause.By = c.Caller.Name
	if err := a.stock.Pause(r.Context(), c.Target.ID, pause); err != nil {
		return err
	}
	return a.altered(w, r, c, "the buying for a target was paused", slog.Time("until", pause.Until), slog.String("reason", pause.Reason))
}

// resume is POST /pool/{target}/resume. It ends a pause that was made by POST; one in
// the file lasts until the file is changed. A target whose orders fail, or that the provider
// refuses, places its next order at once.
func (a *admin) resume(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if c.Target.Paused {
		return kernel.NewProblem(kernel.CodePausedInFile, "the file says `paused: true` for this target; edit the file to resume it")
	}
	if err := a.stock.Resume(r.Context(), c.Target.ID); err != nil {
		return err
	}
	tried, err := a.stock.Retry(r.Context(), c.Target.ID)
	if err != nil {
		return err
	}
	return a.altered(w, r, c, "the buying for a target was resumed", slog.Bool("tried_at_once", tried))
}

// flush is DELETE /pool/{target}/tokens: what is ready is thrown away and
// bought anew, say because the page changed. Orders under way still land.
func (a *admin) flush(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	thrown, err := a.stock.Flush(r.Context(), c.Target.ID, c.Target.Margin)
	if err != nil {
		return err
	}
	return a.altered(w, r, c, "the tokens of a target were thrown away", slog.Int("tokens", thrown))
}

// altered ends a request that changed a target: the log says who did what, the next
// status shows it, and refill looks at the target soon.
func (a *admin) altered(w http.ResponseWriter, r *http.Request, c *kernel.Call, what string, more ...slog.Attr) error {
	attrs := append([]slog.Attr{slog.String("target", c.Target.Name), slog.String("key", c.Caller.Name)}, more...)
	a.log.LogAttrs(r.Context(), slog.LevelInfo, what, attrs...)
	a.status.Changed()
	a.refill.Kick(c.Target.ID)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// reload is POST /-/reload. A caller that hangs up does not stop it half
// way.
func (a *admin) reload(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadLimit)
	defer cancel()
	err := a.file.Reload(ctx)
	kernel.AnswerWithin(w, kernel.WriteLimit)
	a.status.Changed() // also a file that was refused is news
	if err != nil && ctx.Err() != nil {
		p := kernel.NewProblem(kernel.CodeInternal, "the reload did not finish in time")
		p.Cause = err
		return p
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
