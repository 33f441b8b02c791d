package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"poold/internal/check"
	"poold/internal/targets"
)

const (
	// simulatedNow is what an operator must know who does not try poold alone.
	simulatedNow = "the provider is simulated: its tokens open nothing"
	demoMode     = "demo: embedded Redis, simulated provider, its tokens open nothing"
)

// greet logs what a person wants to know of a daemon that has just started: how it is
// run, and where to look.
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
	if !set.Simulated() {
		d.warnOfSpending(check.SpendingOf(set))
	}
	url := baseOf(address, set.Server.TLS.Cert != "")
	d.log.Info("the status page", "url", url+"/status")
	d.log.Info("to take a token", "command", curlFor(url, set))
}

// mostLogged is how many targets a log line names.
const mostLogged = 10

// warnOfSpending logs what can be bought at most, and what is unwise about it.
func (d *daemon) warnOfSpending(s check.Spending) {
	var each []string
	for _, p := range s.Each[:min(mostLogged, len(s.Each))] {
		each = append(each, p.Name+": "+p.String())
	}
	d.log.Info(s.All.String(), "targets", fewOf(each, len(s.Each)))
	if names := s.Unbounded(); len(names) > 0 {
		d.log.Warn("no budget stands against what is bought", "targets", fewOf(names[:min(mostLogged, len(names))], len(names)))
	}
	if n := len(s.Shortfalls); n > 0 {
		d.log.Warn("the providers' threads are too few for what is to be kept", "targets", fewOf(s.Shortfalls[:min(mostLogged, n)], n))
	}
}

// fewOf is a list with how many there are beside those that are named.
func fewOf(named []string, all int) string {
	text := strings.Join(named, "; ")
	if all > len(named) {
		text += fmt.Sprintf("; and %d more", all-len(named))
	}
	return text
}

// baseOf is the address of a listener for somebody on this machine.
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

// curlFor is a command that takes a token of a target, of one that is not paused where
// there is one. It has no double quotes, which the log would escape.
func curlFor(url string, set *targets.Set) string {
	name := set.Targets[0].Name
	if i := slices.IndexFunc(set.Targets, func(t targets.Target) bool { return !t.Paused }); i >= 0 {
		name = set.Targets[i].Name
	}
	key := ""
	if len(set.Server.Keys) > 0 {
		key = "--oauth2-bearer $POOLD_KEY "
	}
	return "curl -s " + key + "'" + url + "/pool/" + name + "/token?wait=20s'"
}
