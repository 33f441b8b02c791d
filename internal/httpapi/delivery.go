package httpapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/listener"
	"poold/internal/pool"
	"poold/internal/strictjson"
)

// Delivery is a token that is being sent to its caller.
type Delivery struct {
	Token    *pool.Token
	Call     *pool.Call // that took the token
	ID       string     // id of the token in the response
	Type     captcha.Type
	Solution map[string]string // the named values of the token; nil = the response has no named values
	Shared   bool              // other callers may get the token too: the take itself has no row for the audit
}

// tokenAnswer is the JSON of a response with a token.
type tokenAnswer struct {
	ID        string            `json:"id"`
	Target    string            `json:"target,omitempty"` // absent if no target has the identity
	Type      captcha.Type      `json:"type"`
	Token     string            `json:"token"`
	Solution  map[string]string `json:"solution,omitempty"`
	Source    pool.Source       `json:"source"`
	Provider  string            `json:"provider"`
	SolvedAt  history.Time      `json:"solved_at"`
	ExpiresAt history.Time      `json:"expires_at"`
	TTL       int64             `json:"ttl_ms"`
	UserAgent string            `json:"user_agent,omitempty"`
	Extra     map[string]string `json:"extra,omitempty"` // the further members of the service's solution
}

// Deliver sends a token: as text if the caller prefers text, otherwise as JSON.
func (s *Server) Deliver(c *Context, t *Delivery) error {
	if c.Ctx().Err() != nil {
		s.ReturnToken(t)
		return ErrHungUp
	}
	token := t.Token
	if c.Prefers(echo.MIMETextPlain) {
		return s.Send(c, t, echo.MIMETextPlainCharsetUTF8, []byte(token.Value))
	}
	a := tokenAnswer{
		ID: t.ID, Type: t.Type, Token: token.Value, Solution: t.Solution, Source: token.Source, Provider: token.Provider,
		SolvedAt: history.Time{Time: token.Born}, ExpiresAt: history.Time{Time: token.Dies}, TTL: token.TTL.Milliseconds(),
		Extra: token.Extra.Members(),
	}
	a.UserAgent = a.Extra["userAgent"]
	delete(a.Extra, "userAgent")
	if c.Target != nil {
		a.Target = c.Target.Name
	}
	return s.Send(c, t, echo.MIMEApplicationJSON, append(strictjson.Encode(a), '\n'))
}

// Send writes a complete response with a token. Send waits until the operating system has accepted
// all bytes, because an error after the return of the handler would be lost.
func (s *Server) Send(c *Context, t *Delivery, contentType string, body []byte) error {
	before := sentBytes(c.Ctx())
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	err := c.Blob(http.StatusOK, contentType, body)
	if err == nil {
		err = http.NewResponseController(c.Response().Writer).Flush()
	}
	switch {
	case err == nil:
		s.Arrived(c, t)
		return nil
	case before >= 0 && sentBytes(c.Ctx()) == before: // uncounted bytes may have left, and no token is handed out twice
		s.ReturnToken(t)
	default:
		s.noteShared(c.Ctx(), t) // a part of the response was sent
	}
	return ErrHungUp
}

// Arrived counts a token that reached its caller.
func (s *Server) Arrived(c *Context, t *Delivery) {
	s.noteShared(c.Ctx(), t)
	if token := t.Token; token.Source != pool.FromReplay { // a replay repeats a counted hand-out
		age := token.Dies.Add(-token.TTL).Sub(token.Born) // all by Redis' clock
		s.Metrics.age.WithLabelValues().Observe(max(0, age.Seconds()))
		s.Metrics.wait.WithLabelValues().Observe(time.Since(c.Began).Seconds())
	}
}

func (s *Server) noteShared(ctx context.Context, t *Delivery) {
	if !t.Shared || t.Call.Row == "" {
		return
	}
	if err := s.Pool.Shared(context.WithoutCancel(ctx), t.Token, t.Call.Row); err != nil {
		s.Log.Warn("the audit lacks the hand-out of a shared token", "order", t.Token.Order, "err", err)
	}
}

// ReturnToken puts a token that reached no caller back into the stock, without blocking. If the caller can request the
// same token again, the token stays reserved for this caller.
func (s *Server) ReturnToken(t *Delivery) {
	if !t.Shared && t.Call.Fingerprint == "" && !t.Call.Task {
		s.Pool.Cancel(t.Call)
	}
}

type connKey struct{}

// connContext adds a connection of a listener.Port to the context of the connection's requests.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, connKey{}, conn)
}

// known notes that a caller with a right key uses the request's connection.
func known(ctx context.Context) {
	if conn, ok := ctx.Value(connKey{}).(*listener.Conn); ok {
		conn.Known()
	}
}

// sentBytes returns the number of bytes that were written to the request's connection so far; -1 = the bytes are not
// counted.
func sentBytes(ctx context.Context) int64 {
	conn, ok := ctx.Value(connKey{}).(*listener.Conn)
	if !ok {
		return -1
	}
	return conn.Written()
}
