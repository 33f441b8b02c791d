package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// reloadLimit bounds a reload, which waits for the workers of removed targets.
const reloadLimit = 30 * time.Second

// handlePause is POST /pool/{target}/pause: no replica buys for the target's
// identity any more. Stock is still handed out, orders under way still land.
func (s *Server) handlePause(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := s.stock.Pause(r.Context(), c.target.ID); err != nil {
		return err
	}
	return s.altered(w, r, c, "the buying for a target was paused")
}

// handleResume is POST /pool/{target}/resume. It undoes a pause by POST alone:
// what the file says stays true until the file says otherwise.
func (s *Server) handleResume(w http.ResponseWriter, r *http.Request, c *call) error {
	if c.target.Paused {
		return fault(codePausedInFile, "the file says `paused: true` for this target; edit the file to resume it")
	}
	if err := s.stock.Resume(r.Context(), c.target.ID); err != nil {
		return err
	}
	return s.altered(w, r, c, "the buying for a target was resumed")
}

// handleFlush is DELETE /pool/{target}/tokens: what is ready is thrown away and
// bought anew, say because the page changed. Orders under way still land.
func (s *Server) handleFlush(w http.ResponseWriter, r *http.Request, c *call) error {
	thrown, err := s.stock.Flush(r.Context(), c.target.ID, c.target.Margin)
	if err != nil {
		return err
	}
	return s.altered(w, r, c, "the tokens of a target were thrown away", slog.Int("tokens", thrown))
}

// altered tells those who should know that a target is not as it was, and the log
// who did what.
func (s *Server) altered(w http.ResponseWriter, r *http.Request, c *call, what string, more ...slog.Attr) error {
	attrs := append([]slog.Attr{slog.String("target", c.target.Name), slog.String("key", c.caller.name)}, more...)
	s.log.LogAttrs(r.Context(), slog.LevelInfo, what, attrs...)
	s.changes.Add(1) // the next /status shows it
	s.refill.Kick(c.target.ID)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// handleReload is POST /-/reload. A caller that hangs up does not stop it half
// way.
func (s *Server) handleReload(w http.ResponseWriter, r *http.Request, _ *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadLimit)
	defer cancel()
	err := s.config.Reload(ctx)
	answerAnew(w)
	s.changes.Add(1) // also a file that was refused is news
	if err != nil && ctx.Err() != nil {
		p := fault(codeInternal, "the reload did not finish in time")
		p.cause = err
		return p
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
