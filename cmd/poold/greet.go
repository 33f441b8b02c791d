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
	// simulatedNow warns operators that expect real tokens.
	simulatedNow = "the provider is simulated: no site accepts its tokens"
	demoMode     = "demo: embedded Redis, simulated provider; no site accepts its tokens"
)

// greet logs how the daemon runs, after it has started: its mode, its address, the limits of its
// purchases, and a command to try.
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

// mostLogged is the maximum number of targets in one log line.
const mostLogged = 10

// warnOfSpending logs the maximum number of solves that poold can buy with the file. It warns about
// targets without a budget, about budgets that the stock uses up, and about insufficient concurrency.
func (d *daemon) warnOfSpending(s check.Spending) {
	each := fewOf(s.Each, func(p check.Purchases) string { return p.Name + ": " + p.String() })
	d.log.Info("limit of the purchases", "limit", s.All.String(), "targets", each, "assumes", s.All.Assumes())
	itself := func(text string) string { return text }
	if names := s.Unbounded(); len(names) > 0 {
		d.log.Warn("no budget limits what these targets buy", "targets", fewOf(names, itself))
	}
	if len(s.Exhausted) > 0 {
		d.log.Warn("the stock uses up a budget without any caller", "targets", fewOf(s.Exhausted, itself))
	}
	if len(s.Shortfalls) > 0 {
		d.log.Warn("the providers' concurrency is too low for the wanted stock", "targets", fewOf(s.Shortfalls, itself))
	}
}

// fewOf joins the texts of the first mostLogged elements of a list, and appends the number of omitted
// elements.
func fewOf[T any](list []T, text func(T) string) string {
	var texts []string
	for _, element := range list[:min(mostLogged, len(list))] {
		texts = append(texts, text(element))
	}
	joined := strings.Join(texts, "; ")
	if omitted := len(list) - len(texts); omitted > 0 {
		joined += fmt.Sprintf("; and %d more", omitted)
	}
	return joined
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
