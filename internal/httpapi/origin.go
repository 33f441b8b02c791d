package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"poold/internal/httpapi/kernel"
)

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
	if !loopbackSocket(r) {
		return kernel.NewProblem(kernel.CodeForbidden, "without keys poold answers only callers on this machine; add a key to the configuration file")
	}
	if !loopbackHost(r.Host) {
		return kernel.NewProblem(kernel.CodeMisdirected, "without keys the Host must be localhost or a loopback address; use one of them, or add a key to the configuration file")
	}
	for name := range r.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			return kernel.NewProblem(kernel.CodeForbidden, "without keys poold answers no request through a proxy; add a key to the configuration file")
		}
	}
	return refuseForeignPages(r)
}

var crossOrigin http.CrossOriginProtection

// refuseForeignPages refuses requests that a page of another site caused. Browsers mark such requests by
// Sec-Fetch-Site or Origin. With plain HTTP, an image in a foreign page causes only a Referer.
func refuseForeignPages(r *http.Request) error {
	asked := *r
	asked.Method = http.MethodPost // CrossOriginProtection lets each GET pass, but GET can hand out a token
	from, err := url.Parse(r.Referer())
	foreign := err != nil || from.Host != "" && !strings.EqualFold(from.Host, r.Host)
	if crossOrigin.Check(&asked) != nil || foreign && r.Header.Get("Sec-Fetch-Site") == "" {
		return kernel.NewProblem(kernel.CodeForbidden, "a web page of another site must not send this request")
	}
	return nil
}

// loopbackSocket reports whether the local address of the connection is a loopback address. For an
// unknown local address the result is false.
func loopbackSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.IsLoopback()
}

// loopbackHost reports whether a Host header names this machine: localhost or
// a loopback literal, with any port.
func loopbackHost(host string) bool {
	name := host
	if strings.HasPrefix(host, "[") || strings.Count(host, ":") == 1 {
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && addr.IsLoopback()
}
