package httpapi

import (
	"regexp"
	"slices"
	"strings"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// solved is the answer of POST /solve.
type solved struct {
	ID        string            `json:"id"`
	Target    string            `json:"target,omitempty"`
	Type      captcha.Type      `json:"type"`
	Token     string            `json:"token"`
	Solution  map[string]string `json:"solution,omitempty"`
	Source    pool.Source       `json:"source"`
	Provider  string            `json:"provider"`
	SolvedAt  string            `json:"solved_at"`
	ExpiresAt string            `json:"expires_at"`
	TTL       int64             `json:"ttl_ms"`
	UserAgent string            `json:"user_agent,omitempty"`
}

// solvedBy is the answer with a token; target is nil where none has its identity.
func solvedBy(d *delivery, target *target) solved {
	token := d.token
	a := solved{
		ID: d.id, Type: d.kind,
		Token: token.Value, Solution: captcha.Named(d.kind, token.Value),
		Source: token.Source, Provider: token.Provider, SolvedAt: string(appendTime(nil, token.Born)),
		ExpiresAt: string(appendTime(nil, token.Dies)), TTL: token.TTL.Milliseconds(), UserAgent: token.UserAgent,
	}
	if target != nil {
		a.Target = target.Name
	}
	return a
}

var identityID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// solveID names a token of /solve: its own name, and of what it is.
type solveID struct {
	token string
	id    captcha.ID
	kind  captcha.Type
}

func (s solveID) String() string { return s.token + "." + string(s.id) + "." + string(s.kind) }

// readSolveID is the inverse; false where it is none.
func readSolveID(text string) (s solveID, ok bool) {
	rest, kind, ok := cutLast(text, ".")
	if !ok {
		return s, false
	}
	token, id, ok := cutLast(rest, ".")
	return solveID{token, captcha.ID(id), captcha.Type(kind)},
		ok && identityID.MatchString(id) && slices.Contains(captcha.SolvableTypes(), captcha.Type(kind))
}

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
