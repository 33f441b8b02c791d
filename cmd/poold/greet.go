package main

import (
	"net"
	"net/netip"
	"slices"

	"poold/internal/targets"
)

const (
	// simulatedNow warns operators that expect real tokens.
	simulatedNow = "the provider is simulated: no site accepts its tokens"
	demoMode     = "demo: embedded Redis, simulated provider; no site accepts its tokens"
)

// greet logs how the daemon runs, after it has started: its mode, its address, and a command to
// try.
func (d *daemon) greet(set *targets.Set) {
	var names []string
	for _, p := range set.Providers {
		names = append(names, p.Name)
	}
	switch {
	case set.Demo():
		d.log.Warn(demoMode)
	case set.Simulated():
		d.log.Warn(simulatedNow)
	}
	address := d.listener.Addr().String()
	d.log.Info("serving", "address", address, "targets", len(set.Targets), "redis", d.mode, "providers", names)
	url := baseOf(address, set.Server.TLS.Cert != "")
	d.log.Info("the status page", "url", url+"/status")
	d.log.Info("to take a token", "command", curlFor(url, set))
}

// baseOf returns the base URL by which a client on this machine reaches a listener.
func baseOf(address string, secure bool) string {
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		_, port, _ := net.SplitHostPort(address)
		address = "127.0.0.1:" + port
	}
	if secure {
		return "https://" + address
	}
	return "http://" + address
}

// curlFor returns a curl command that takes a token. It prefers a target for which the file allows
// purchases. The command has no double quotes, because they would be escaped in the log.
func curlFor(url string, set *targets.Set) string {
	name := set.Targets[0].Name
	if i := slices.IndexFunc(set.Targets, func(t targets.Target) bool { return t.Halted() == "" }); i >= 0 {
		name = set.Targets[i].Name
	}
	key := ""
	if len(set.Server.Keys) > 0 {
		key = "--oauth2-bearer $POOLD_KEY "
	}
	return "curl -s " + key + "'" + url + "/pool/" + name + "/token?wait=20s'"
}
