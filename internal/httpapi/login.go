package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/httpapi/page"
	"poold/internal/httpapi/session"
	"poold/internal/targets"
)

// Sessions signs and checks the cookies of the status page; *session.Signer implements it.
type Sessions interface {
	Begin(ctx context.Context, key session.Key, now time.Time) (cookie string, ends time.Time, err error)
	Find(ctx context.Context, cookie string, keys []session.Key, now time.Time) int
}

// sessionCookie is the name of the cookie.
const sessionCookie = "poold_session"

// sessionOf returns the caller of the session to which a request belongs, or nil. With a session, a
// browser can only read the status and operate poold. No page can therefore take tokens with the
// cookie.
func (g *gate) sessionOf(a *kernel.Access, rt *kernel.Route, r *http.Request) *kernel.Caller {
	if g.sessions == nil || rt.Scope != targets.ScopeStatus && rt.Scope != targets.ScopeAdmin {
		return nil
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	keys := make([]session.Key, len(a.Callers))
	for i, c := range a.Callers {
		keys[i] = session.Key{Name: c.Name, Digest: c.Digest}
	}
	if i := g.sessions.Find(r.Context(), cookie.Value, keys, time.Now()); i >= 0 {
		return a.Callers[i]
	}
	return nil
}

// logins begins and ends the sessions of the status page.
type logins struct {
	gate  *gate
	pages *page.Routes
}

// begin is POST /login: it reads a form with the field `key`. If the key is right, the response
// redirects to the status page; otherwise the response is the form again.
func (l logins) begin(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if err := refuseForeignPages(r); err != nil {
		return err
	}
	body, err := kernel.ReadBody(r, w, kernel.MaxBody)
	if err != nil {
		return err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return kernel.NewProblem(kernel.CodeBadRequest, "send a form with the field key")
	}
	if len(c.Access.Callers) == 0 || l.gate.sessions == nil {
		http.Redirect(w, r, "/status", http.StatusSeeOther) // no key is needed, or no session can begin
		return nil
	}
	caller := c.Access.Owner(form.Get("key"))
	if caller == nil {
		if err := l.gate.noteWrong(r, c, form.Get("key")); err != nil {
			return err
		}
		c.Code = kernel.CodeUnauthorized
		return l.pages.Login(w, http.StatusUnauthorized, "The configuration file has no such key.")
	}
	value, ends, err := l.gate.sessions.Begin(r.Context(), session.Key{Name: caller.Name, Digest: caller.Digest}, c.Began)
	if err != nil {
		c.Code = kernel.CodeStoreDown
		return l.pages.Login(w, http.StatusServiceUnavailable, "Redis does not answer, so no session can begin. Until it answers, programs can read /status.json with the key.")
	}
	setSession(w, r, value, ends)
	http.Redirect(w, r, "/status", http.StatusSeeOther)
	return nil
}

// end is POST /logout: it deletes the cookie.
func (l logins) end(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	if err := refuseForeignPages(r); err != nil {
		return err
	}
	if _, err := kernel.ReadBody(r, w, kernel.MaxBody); err != nil {
		return err
	}
	setSession(w, r, "", time.Unix(1, 0))
	http.Redirect(w, r, "/status", http.StatusSeeOther)
	return nil
}

// setSession sets the cookie. The Origin header of the form shows whether the browser uses TLS,
// even if a proxy terminates TLS.
func setSession(w http.ResponseWriter, r *http.Request, value string, ends time.Time) {
	origin, err := url.Parse(r.Header.Get("Origin"))
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: Secure only with TLS, because poold also serves plain HTTP
		Name: sessionCookie, Value: value, Path: "/", Expires: ends, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || err == nil && origin.Scheme == "https",
	})
}
