package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/pool/tokenid"
)

// All responses share these header values, which never change; net/http only reads them.
var (
	typeJSON = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// Canceller takes back the token of a call whose answer did not leave; *pool.Pool implements it. It does not block.
type Canceller interface {
	Cancel(c *pool.Call)
}

// IDs makes the ids of tokens; *tokenid.Secret implements it.
type IDs interface {
	Signer(ctx context.Context) (*tokenid.Signer, error)
}

// Counts counts hand-outs and reports; *httpapi.Metrics implements it.
type Counts interface {
	HandedOut(token *pool.Token, waited time.Duration)
	Reported(accepted bool, age time.Duration)
}

// Sender sends tokens to their callers. A token that certainly reached no caller returns to the
// stock.
type Sender struct {
	Pool    Canceller
	IDs     IDs
	Audit   Audit
	Metrics Counts
}

// Handout is a token that is being sent to its caller.
type Handout struct {
	Token    *pool.Token
	Call     *pool.Call        // that took the token
	ID       string            // id of the token in the response
	Kind     captcha.Type      // type of the captcha
	Image    string            // result of ImageOf: the picture that the token solves
	Solution map[string]string // the named values of the token; nil = the response has no named values
	Shared   bool              // other callers may get the token too
}

// answer is the JSON of a response with a token.
type answer struct {
	ID        string            `json:"id"`
	Target    string            `json:"target,omitempty"` // absent if no target has the identity
	Type      captcha.Type      `json:"type"`
	Token     string            `json:"token"`
	Solution  map[string]string `json:"solution,omitempty"`
	Source    pool.Source       `json:"source"`
	Provider  string            `json:"provider"`
	SolvedAt  stamp             `json:"solved_at"`
	ExpiresAt stamp             `json:"expires_at"`
	TTL       int64             `json:"ttl_ms"`
	UserAgent string            `json:"user_agent,omitempty"`
}

// stamp is a time whose JSON form is made by kernel.AppendStamp.
type stamp time.Time

// MarshalText implements encoding.TextMarshaler.
func (s stamp) MarshalText() ([]byte, error) { return kernel.AppendStamp(nil, time.Time(s)), nil }

// Deliver sends a token: as text if the caller prefers text, otherwise as JSON.
func (d *Sender) Deliver(w http.ResponseWriter, r *http.Request, c *kernel.Call, t *Handout) error {
	if r.Context().Err() != nil {
		d.ReturnToken(c, t)
		return kernel.ErrHungUp
	}
	token := t.Token
	if kernel.Prefers(r.Header["Accept"], "text/plain") {
		return d.Send(w, r, c, t, kernel.TypeText, []byte(token.Value))
	}
	a := answer{
		ID: t.ID, Type: t.Kind, Token: token.Value, Solution: t.Solution, Source: token.Source, Provider: token.Provider,
		SolvedAt: stamp(token.Born), ExpiresAt: stamp(token.Dies), TTL: token.TTL.Milliseconds(), UserAgent: token.UserAgent,
	}
	if c.Target != nil {
		a.Target = c.Target.Name
	}
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer) // the method Send returns only after the operating system has the bytes
	body, plain := a.appendPlain((*buffer)[:0])
	if *buffer = body; !plain {
		body = a.encode()
	}
	return d.Send(w, r, c, t, typeJSON, body)
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encode returns the response as JSON, without escapes for <, > and &.
func (a answer) encode() []byte {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(a) // strings, numbers and stamps can always be encoded
	return body.Bytes()
}

// appendPlain appends the same JSON as the method encode, in a fraction of the time. appendPlain
// returns false for the few responses with a solution, without a target, or with a character that
// JSON escapes.
func (a *answer) appendPlain(b []byte) (_ []byte, plain bool) {
	for _, field := range [...]struct{ begin, value string }{
		{`{"id":"`, a.ID}, {`","target":"`, a.Target}, {`","type":"`, string(a.Type)}, {`","token":"`, a.Token}, {`","source":"`, string(a.Source)},
		{`","provider":"`, a.Provider},
	} {
		if !isPlain(field.value) || a.Solution != nil || a.Target == "" {
			return b, false
		}
		b = append(append(b, field.begin...), field.value...)
	}
	b = kernel.AppendStamp(append(b, `","solved_at":"`...), time.Time(a.SolvedAt))
	b = kernel.AppendStamp(append(b, `","expires_at":"`...), time.Time(a.ExpiresAt))
	b = strconv.AppendInt(append(b, `","ttl_ms":`...), a.TTL, 10)
	if a.UserAgent != "" {
		b = append(append(append(b, `,"user_agent":"`...), a.UserAgent...), '"')
	}
	return append(b, "}\n"...), isPlain(a.UserAgent)
}

// isPlain reports whether a text needs no escapes in JSON.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Send writes a complete response with a token. Send waits until the operating system has accepted
// all bytes, because an error after the return of the handler would be lost.
func (d *Sender) Send(w http.ResponseWriter, r *http.Request, c *kernel.Call, t *Handout, contentType []string, body []byte) error {
	before := markSent(r.Context())
	h := w.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	h["Vary"] = kernel.VaryAccept
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	_, err := w.Write(body)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	switch {
	case err == nil:
		d.Arrived(c, t)
		return nil
	case before.nothingSince():
		d.ReturnToken(c, t)
	default:
		d.Audit.Taken(c, t) // a part of the response was sent
	}
	return kernel.ErrHungUp
}

// Arrived counts a token that reached its caller, and writes its audit entry.
func (d *Sender) Arrived(c *kernel.Call, t *Handout) {
	d.Audit.Taken(c, t)
	d.Metrics.HandedOut(t.Token, time.Since(c.Began))
}

// ReturnToken puts a token that reached no caller back into the stock, without blocking. A caller that can request the
// token again owns it.
func (d *Sender) ReturnToken(c *kernel.Call, t *Handout) {
	switch {
	case t.Shared:
	case t.Call.Fingerprint != "" || t.Call.Task:
		d.Audit.Taken(c, t)
	default:
		d.Pool.Cancel(t.Call)
	}
}
