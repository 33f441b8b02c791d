package targets

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// page is a parsed address of a page, or a pattern of such addresses. The scheme, host, port and
// path of an address are each compared with the same part of a pattern. Queries are not compared.
// The only wildcard is the star. In the host a star matches no dot. In the path a star also matches
// slashes. As the port a star matches any port.
//
// Different programs parse unusual addresses in different ways. An address is accepted only if all
// programs find the same host and the same path in it.
type page struct {
	scheme string // http or https
	host   string // lower-case name, or IP address in canonical form; IPv6 in brackets
	port   string // never ""; "*" = any port
	path   string // unchanged path of the address, without the query
}

// pagePattern parses a pattern of addresses of pages. The parsed value has the type page.
func pagePattern(e scalar) (any, string) {
	if e.text == "" {
		return nil, "must not be empty"
	}
	p, rule := splitPage(e.text, true)
	if rule != "" {
		return nil, rule
	}
	return p, ""
}

// splitPage parses an address, or a pattern if the argument `pattern` is true. The result `rule`
// does not quote the address.
func splitPage(address string, pattern bool) (p page, rule string) {
	if !isPrintable(address, '!') || strings.Contains(address, `\`) {
		return p, "must be ASCII without spaces and backslashes: write a host of another script as xn--…, and other characters as %XX"
	}
	scheme, rest, whole := strings.Cut(address, "://")
	p.scheme = strings.ToLower(scheme)
	if !whole || p.scheme != "http" && p.scheme != "https" {
		return p, "must begin with http:// or https://"
	}
	if strings.Contains(rest, "#") {
		return p, "must not hold a fragment: remove the # and what follows"
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	if strings.Contains(authority, "@") {
		return p, "must not hold a user and password"
	}
	if strings.Contains(tail, "@") {
		return p, "must not hold an @, behind which some programs look for the host: write it as %40"
	}
	if p.host, p.port, rule = splitAuthority(authority, p.scheme, pattern); rule != "" {
		return p, rule
	}
	p.path, rule = splitPath(tail, pattern)
	return p, rule
}

func splitAuthority(authority, scheme string, pattern bool) (host, port, rule string) {
	host, port = authority, map[string]string{"http": "80", "https": "443"}[scheme]
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		host, port = authority[:colon], authority[colon+1:]
		n, err := strconv.Atoi(port)
		number := err == nil && n >= 1 && n <= 65535 && strconv.Itoa(n) == port
		if !number && (!pattern || port != "*") {
			return "", "", "the port must be a number from 1 to 65535"
		}
	}
	host, rule = cleanHost(strings.ToLower(host), pattern)
	return host, port, rule
}

// cleanHost returns the canonical form of a host. For an invalid host, cleanHost returns the rule
// that the host violates.
func cleanHost(host string, pattern bool) (clean, rule string) {
	const ipForm = "an IP address must be written in full, as 192.0.2.1 or [2001:db8::1], without wildcards"
	if inner, bracket := strings.CutPrefix(host, "["); bracket {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", ipForm
		}
		return "[" + addr.String() + "]", ""
	}
	wild := pattern && strings.Contains(host, "*")
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || strings.IndexFunc(label, func(c rune) bool { return !isWord(c) && c != '-' && (!wild || c != '*') }) >= 0 {
			return "", "the host must be names of a-z, 0-9, - and _ with single dots between them, or an IP address"
		}
	}
	if wild && !strings.ContainsAny(host, "abcdefghijklmnopqrstuvwxyz") {
		return "", "the host must not consist of wildcards only: name the domain, as in https://*.example.com/*"
	}
	// If the last label is a number, some programs treat the host as an IP address, and others
	// treat it as a name.
	if last := labels[len(labels)-1]; digits(last) || strings.HasPrefix(last, "0x") {
		if addr, err := netip.ParseAddr(host); err != nil || addr.String() != host {
			return "", ipForm
		}
	}
	return host, ""
}

// splitPath separates the path from the query and checks both. It returns the path, or the rule
// that the address violates.
func splitPath(tail string, pattern bool) (path, rule string) {
	path, _, query := strings.Cut(tail, "?")
	switch {
	case query && pattern:
		return "", "must not hold a ?: queries are not compared"
	case path == "" && pattern:
		return "", "needs a path: /* is every page of the host"
	case path == "" && query:
		return "", "needs a / before the ?"
	case path == "":
		return "/", ""
	}
	for at := strings.IndexByte(path, '%'); at >= 0; {
		code, err := strconv.ParseUint(path[at+1:min(at+3, len(path))], 16, 8)
		if err != nil || at+3 > len(path) || code < ' ' || code == 0x7f || strings.ContainsRune(`./\%`, rune(code)) {
			return "", "the path must not hold encoded dots, slashes, percent signs and control characters, and a % needs two hex digits behind it"
		}
		next := strings.IndexByte(path[at+3:], '%')
		if next < 0 {
			break
		}
		at += 3 + next
	}
	for segment := range strings.SplitSeq(path, "/") {
		// Some servers ignore the text after a semicolon in a segment.
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return "", "the path must not hold the steps . and .."
		}
	}
	return path, ""
}

// matches reports whether the address of a page matches the pattern p.
func (p page) matches(other page) bool {
	return p.scheme == other.scheme && (p.port == "*" || p.port == other.port) &&
		matchHost(p.host, other.host) && matchStars(p.path, other.path)
}

// matchHost compares a host with a pattern label by label, because a star must not match a dot.
func matchHost(pattern, host string) bool {
	return slices.EqualFunc(strings.Split(pattern, "."), strings.Split(host, "."), matchStars)
}

// matchStars reports whether a text matches a pattern. A star matches any text, including the empty
// text. The time per star is linear in the length of the text.
func matchStars(pattern, text string) bool {
	first, rest, starred := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, first)
	if !ok || !starred {
		return ok && text == ""
	}
	parts := strings.Split(rest, "*")
	last := len(parts) - 1
	for _, part := range parts[:last] {
		if _, text, ok = strings.Cut(text, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, parts[last])
}

// isOpen reports whether one of the last two labels of the host has a wildcard. Such a pattern matches
// hosts that belong to different owners.
func (p page) isOpen() bool {
	labels := strings.Split(p.host, ".")
	return len(labels) > 1 && strings.Contains(strings.Join(labels[len(labels)-2:], ""), "*")
}
