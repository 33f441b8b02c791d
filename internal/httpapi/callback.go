package httpapi

import (
	"errors"
	"log/slog"
	"net/http"

	"poold/internal/purchase"
)

// handleCallback is GET and POST /callback/{provider}/{order}/{secret}: a
// provider's word on the end of a task. Whatever is wrong with it, the answer is
// 200, because a service would only send it again, and one that guesses learns
// nothing; it is 503 where a later try is wanted. A daemon that stops takes it
// too.
func (s *Server) handleCallback(w http.ResponseWriter, r *http.Request, c *call) error {
	body, err := readBody(r, c.w.ResponseWriter)
	refused := (*problem)(nil)
	oversized := errors.As(err, &refused) && refused.Code == codeTooLarge
	if err != nil && !oversized {
		return err // half of it: who sent it must not take it for delivered
	}
	err = s.buyer.Callback(r.Context(), purchase.Callback{
		Provider: c.param(r, 0), Order: c.param(r, 1), Secret: c.param(r, 2),
		Query: r.URL.Query(), ContentType: r.Header.Get("Content-Type"), Body: body, Oversized: oversized, At: c.began,
	})
	if err != nil {
		return err
	}
	respond(w, typeText[0], nil)
	return nil
}

// letters is the answer of GET /dead-letters.
type letters struct {
	Letters    []purchase.DeadLetter `json:"letters"`              // never null
	Incomplete bool                  `json:"incomplete,omitempty"` // some cannot be read
}

// handleLetters is GET /dead-letters: callbacks that could not be stored yet,
// at this replica, without their tokens.
func (s *Server) handleLetters(w http.ResponseWriter, r *http.Request, _ *call) error {
	list, err := s.buyer.DeadLetters()
	if err != nil { // the buyer tells of it once; it names files, not what is in them
		s.log.DebugContext(r.Context(), "not all dead letters can be read", slog.Any("err", err))
	}
	return respondJSON(w, letters{Letters: append([]purchase.DeadLetter{}, list...), Incomplete: err != nil})
}

// handleReplay is POST /dead-letters/replay: it tries all of them now.
func (s *Server) handleReplay(w http.ResponseWriter, r *http.Request, _ *call) error {
	replayed, err := s.buyer.Replay(r.Context())
	s.changes.Add(1) // also one that failed half way changed something
	answerAnew(w)
	if err != nil {
		return err
	}
	return respondJSON(w, replayed)
}
