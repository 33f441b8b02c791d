package httpapi

import (
	"net/http"
	"net/http/pprof" // poold does not serve http.DefaultServeMux, to which this package adds its handlers
	profiles "runtime/pprof"

	"poold/internal/httpapi/kernel"
)

// profile serves the profiles of the daemon, as package net/http/pprof does. The variable part of the
// path is the name of a profile; without one, the response lists them.
func profile(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	name := ""
	if len(c.Params) > 0 {
		name = c.Param(r, 0)
	}
	serve, known := map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	}[name]
	switch {
	case known:
		serve(w, r)
	case profiles.Lookup(name) != nil:
		pprof.Handler(name).ServeHTTP(w, r)
	default:
		return kernel.ErrNotFound()
	}
	return nil
}
