package main

import (
	"net"
	"slices"

	"poold/internal/targets"
)

// greet logs how the daemon runs, after it has started: its address, and a command to try.
func (d *daemon) greet(set *targets.Set) {
	var names []string
	for _, p := range set.Providers {
		names = append(names, p.Name)
	}
	address := d.listener.Addr().String()
	d.log.Info("serving", "address", address, "targets", len(set.Targets), "redis", d.redis.Mode, "providers", names)
	if host, port, _ := net.SplitHostPort(address); net.ParseIP(host).IsUnspecified() {
		address = "127.0.0.1:" + port
	}
	url, key := "http://"+address, ""
	if set.Server.TLS.Cert != "" {
		url = "https://" + address
	}
	if len(set.Server.Keys) > 0 {
		key = "--oauth2-bearer $POOLD_KEY " // without double quotes, which the log would escape
	}
	d.log.Info("the status page", "url", url+"/status")
	buys := max(0, slices.IndexFunc(set.Targets, func(t targets.Target) bool { return t.Halted() == "" }))
	d.log.Info("to take a token", "command", "curl -s "+key+"'"+url+"/pool/"+set.Targets[buys].Name+"/token?wait=60s'")
}
