package httpapi

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"

	"poold/internal/targets"
)

// admit decides whether a request may reach the handler of its route, and finds the caller and the target.
func (s *Server) admit(c *Context) error {
	if !c.route.open {
		if err := s.check(c); err != nil {
			return err
		}
		if c.Caller != nil {
			known(c.Ctx())
			if wait := c.Caller.OverRate(c.Began); wait > 0 {
				return NewProblem(CodeRateLimited, "the rate of the key "+c.Caller.Name+" is used up").RetryAfter(wait)
			}
		}
	}
	if c.route.body {
		return nil
	}
	return c.ReadNothing()
}

// recheck checks a caller again after its wait: a reload may have changed the rights of its key, or
// the target.
func (s *Server) recheck(c *Context) error {
	if s.access() == c.Access {
		return nil
	}
	caller, target := c.Caller, c.Target
	err := s.check(c)
	switch {
	case err != nil:
		c.Caller, c.Target = caller, target // for the log and the response
	case c.Target != nil && c.Target.ID != target.ID:
		err = NewProblem(CodePoolEmpty, "the target changed during the wait; repeat the request").RetryAfter(time.Second)
	}
	return err
}

// access returns the callers and targets of the current Set.
func (s *Server) access() *Access {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.Config.Current(); s.current.Set != set {
		s.current = NewAccess(set)
	}
	return s.current
}

// check finds the caller and the target, and checks the rights of the caller.
func (s *Server) check(c *Context) (err error) {
	c.Access, c.Caller, c.Target = s.access(), nil, nil
	rt, r := c.route, c.Request()
	secret, basic := credential(r)
	switch {
	case len(c.Access.Callers) == 0:
		c.Caller, err = Anyone, refuseStrangers(r)
	case rt.scope == "":
		return nil // a public file, or the handler checks the key
	default:
		if c.Caller = c.Access.CallerWith(secret); c.Caller == nil {
			return s.refuseKey(c, secret)
		}
		if !c.Caller.May(rt.scope) {
			return NewProblem(CodeForbidden, "this key lacks the scope "+string(rt.scope))
		}
		if rt.whole && c.Caller.Targets != nil {
			return NewProblem(CodeForbidden, "this route covers all targets, and this key is limited to some")
		}
		// A browser adds Basic credentials automatically, even to requests that pages of other sites cause.
		if rt.changes() && basic {
			err = refuseForeignPages(r)
		}
	}
	if err == nil && strings.HasPrefix(rt.path, "/pool/:target") {
		c.Target, err = s.find(c, c.Param("target"))
	}
	return err
}

// refuseKey returns the error for a request without a key or with a wrong key. It counts and logs
// only wrong keys. A request with a right key is served even if many wrong keys come from the same
// address.
func (s *Server) refuseKey(c *Context, secret string) error {
	detail := "no key was sent: send a key of the configuration file as Authorization: Bearer KEY, " +
		"or as the password of Basic"
	if secret != "" {
		if !s.allowWrongKey(c) {
			return NewProblem(CodeRateLimited,
				"too many wrong keys came from this address; right keys are still accepted").RetryAfter(RetryWrong)
		}
		detail = "the configuration file has no such key: compare the key with server.keys in the file"
	}
	// A browser prompts for a password only if Basic comes first. A picture in a page must not open this prompt, so routes
	// that change something do not offer Basic, but for the forms of the page. The renewals of an open page (HX-Request)
	// do not offer Basic either, because after the removal of a key each renewal would open a prompt.
	h := c.Response().Header()
	if (!c.route.changes() || c.route.path == "/status/act") && c.Request().Header.Get("HX-Request") == "" {
		h.Add(echo.HeaderWWWAuthenticate, `Basic realm="poold", charset="UTF-8"`)
	}
	h.Add(echo.HeaderWWWAuthenticate, `Bearer realm="poold"`)
	return NewProblem(CodeUnauthorized, detail)
}

// find returns the target with the given name, if the caller may use the target.
func (s *Server) find(c *Context, name string) (*targets.Target, error) {
	if !c.Caller.MayUse(name) { // also for an unknown target: a key must not learn which other targets exist
		return nil, NewProblem(CodeForbidden, "this key is limited to other targets")
	}
	if t := c.Access.Targets[name]; t != nil {
		return t, nil
	}
	detail := "the configuration file has no target of this name"
	if !s.Config.Status().OK {
		detail = "the file was refused when it was read last (`poold check` says why), " +
			"and the one in use has no target of this name"
	}
	if near := targets.Nearest(name, c.usable()); near != "" {
		detail += ": did you mean " + near + "?"
	}
	return nil, NewProblem(CodeUnknownTarget, detail)
}

// credential returns the key of a request, or "", and whether the key is a Basic password.
func credential(r *http.Request) (secret string, basic bool) {
	if scheme, rest, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), false
	}
	_, password, _ := r.BasicAuth()
	return password, true
}

// If the configuration file has no keys, a caller must be on this machine. A browser on this
// machine may show a page of another site. Requests that such a page can cause are therefore
// refused.

// refuseStrangers accepts only requests from programs on this machine. refuseStrangers refuses
// requests from pages of other sites, requests through a proxy, and requests to a host name that an
// attacker's DNS resolves to this machine.
func refuseStrangers(r *http.Request) error {
	// This check is a second safeguard: while the daemon listens on an address other than loopback, a
	// reload already refuses a file without keys. The check reads the address of the socket, because
	// the caller chooses the Host header.
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); !ok || !local.IP.IsLoopback() {
		return NewProblem(CodeForbidden,
			"without keys poold answers only callers on this machine; add a key to the configuration file")
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]") // without a port
	}
	if !targets.IsLoopback(strings.ToLower(host)) {
		return NewProblem(CodeMisdirected,
			"without keys the Host must be localhost or a loopback address; use one of them, "+
				"or add a key to the configuration file")
	}
	for name := range r.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			return NewProblem(CodeForbidden,
				"without keys poold answers no request through a proxy; add a key to the configuration file")
		}
	}
	return refuseForeignPages(r)
}

var crossOrigin http.CrossOriginProtection

// refuseForeignPages refuses requests that a page of another site caused. Browsers mark such requests by
// Sec-Fetch-Site or Origin. With plain HTTP, a request for an image in a foreign page has only a Referer.
func refuseForeignPages(r *http.Request) error {
	asked := *r
	asked.Method = http.MethodPost // CrossOriginProtection lets each GET pass, but GET can hand out a token
	from, err := url.Parse(r.Referer())
	foreign := err != nil || from.Host != "" && !strings.EqualFold(from.Host, r.Host)
	if crossOrigin.Check(&asked) != nil || foreign && r.Header.Get("Sec-Fetch-Site") == "" {
		return NewProblem(CodeForbidden, "a web page of another site must not send this request")
	}
	return nil
}

// RetryWrong is the interval in which a sender of wrong keys may try again after triesAMinute such requests.
const RetryWrong = time.Minute / triesAMinute

const triesAMinute = 20

// perSender returns a function that counts an event of a sender, and reports whether it is allowed: each sender has a
// burst of events, and then one per interval. Senders without recent events are forgotten.
func perSender(burst int, interval time.Duration) func(sender string) bool {
	store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Every(interval), Burst: burst, ExpiresIn: time.Duration(burst) * interval,
	})
	return func(sender string) bool {
		allowed, _ := store.Allow(sender) // this store never fails
		return allowed
	}
}

// allowWrongKey counts and logs a wrong key, which the configuration file lacks. It returns false if too many wrong
// keys came from the same address. Each address is logged at most once a minute.
func (s *Server) allowWrongKey(c *Context) bool {
	address := c.RealIP()
	if s.wrongLogged(address) {
		s.Log.WarnContext(c.Ctx(), "the configuration file does not have a caller's key; correct the key of this caller",
			slog.String("address", address), slog.String("route", c.Path()))
	}
	// One host may use all addresses of an IPv6 network.
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		network, _ := ip.Prefix(64)
		address = network.String()
	}
	return s.wrongKeys(address)
}
