package httpapi

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/munnerz/goautoneg"

	"poold/internal/targets"
)

// WriteLimit limits the time from the first byte of a response to the last. A token or a page is a few
// kilobytes, so a client that needs more time is not reading the response.
const WriteLimit = 10 * time.Second

// Context is echo's context of a request, with what package httpapi knows of the request.
type Context struct {
	echo.Context

	Began  time.Time
	Access *Access
	Caller *Caller         // nil on routes that need no key
	Target *targets.Target // nil if the request has no target
	Code   Code            // code of the problem in the response; "" = no problem
	HungUp bool            // the caller hung up or did not read the response

	route *route // nil if no route has the path
}

// Handler writes the response to a request, or returns an error.
type Handler func(c *Context) error

// Error implements echo.Context. Echo's method would pass echo's context instead of c.
func (c *Context) Error(err error) { c.Echo().HTTPErrorHandler(err, c) }

// Param implements echo.Context. Echo's own method does not decode percent-escapes.
func (c *Context) Param(name string) string {
	value := c.Context.Param(name)
	if c.Request().URL.RawPath == "" {
		return value // net/http has decoded the path already
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// Ctx returns the context of the request, which ends when the caller hangs up.
func (c *Context) Ctx() context.Context { return c.Request().Context() }

// RequestID returns the id of the request.
func (c *Context) RequestID() string { return c.Response().Header().Get(echo.HeaderXRequestID) }

// callerName names the caller for a solve.Semaphore: "" without keys, and until a client's key has been read.
func (c *Context) callerName() string {
	if c.Caller == nil || c.Caller == Anyone {
		return ""
	}
	return c.Caller.StableName
}

// usable lists the targets of the configuration file that the caller may use, sorted; never nil.
func (c *Context) usable() []string {
	names := []string{}
	for i := range c.Access.Set.Targets {
		if name := c.Access.Set.Targets[i].Name; c.Caller.MayUse(name) {
			names = append(names, name)
		}
	}
	return names
}

// Sees reports whether the caller may see the records of a target.
func (c *Context) Sees(target string) bool {
	return c.Caller.Targets == nil || c.Access.Targets[target] != nil && c.Caller.MayUse(target)
}

// Prefers reports whether the request's Accept header prefers a media type to application/json, which `*/*` gets. The
// response must vary by Accept.
func (c *Context) Prefers(mediaType string) bool {
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	accept := strings.ToLower(strings.Join(c.Request().Header.Values(echo.HeaderAccept), ","))
	return accept != "" && goautoneg.Negotiate(accept, []string{echo.MIMEApplicationJSON, mediaType}) == mediaType
}
