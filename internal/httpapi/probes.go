package httpapi

import (
	"errors"
	"net/http"
	"time"

	"poold/internal/purchase"
)

// alive is GET /healthz: 200 while the process serves requests. The route ignores Redis, because a
// restart of poold would not repair Redis.
func (s *Server) alive(c *Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// ready is GET /readyz: 200 if this replica can hand out tokens of at least some targets, else 503.
func (s *Server) ready(c *Context) error {
	health := s.Health()
	switch {
	case s.stopping.Load():
		return NewProblem(CodeShuttingDown, "the daemon is stopping")
	case !health.Ready():
		return NewProblem(CodeStoreDown, health.Reason+", since "+health.Since.UTC().Format(time.RFC3339))
	}
	ready := struct {
		Ready   bool     `json:"ready"`
		Reasons []string `json:"reasons,omitempty"` // reasons why some targets have no tokens
	}{Ready: true}
	if health.Reason != "" {
		ready.Reasons = []string{health.Reason}
	}
	return c.JSON(http.StatusOK, ready)
}

// callback is GET and POST /callback/{provider}/{order}/{secret}: a solving service reports the end
// of a task. The response is 200 even for an invalid callback. A service would only repeat a
// refused callback, and an attacker that guesses addresses must not learn anything. The response is
// 503 if the service should try again. A daemon that is stopping still accepts callbacks.
func (s *Server) callback(c *Context) error {
	body, err := c.ReadBody(MaxBody)
	refused := (*Problem)(nil)
	oversized := errors.As(err, &refused) && refused.Code == CodeTooLarge
	if err != nil && !oversized {
		return err // the body is incomplete: the service must send it again
	}
	r := c.Request()
	err = s.Buyer.Callback(c.Ctx(), purchase.Callback{
		Provider: c.Param("provider"), Order: c.Param("order"), Secret: c.Param("secret"),
		Query: r.URL.Query(), Body: body, Oversized: oversized, At: c.Began,
	})
	if err != nil {
		return err
	}
	return c.String(http.StatusOK, "")
}
