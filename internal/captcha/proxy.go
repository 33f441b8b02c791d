package captcha

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
)

// Proxy is the parsed address of a proxy.
type Proxy struct {
	Address         string
	Port            json.Number
	Login, Password string
}

// SplitProxy parses host:port or user:password@host:port. A password may contain '@' and ':'.
func SplitProxy(address Secret) (p Proxy, ok bool) {
	text, login := address.Reveal(), true
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		p.Login, p.Password, login = strings.Cut(text[:at], ":")
		text, login = text[at+1:], login && p.Login != ""
	}
	host, port, err := net.SplitHostPort(text)
	n, invalid := strconv.ParseUint(port, 10, 16)
	if err != nil || invalid != nil || host == "" || n == 0 || !login {
		return Proxy{}, false
	}
	p.Address, p.Port = host, json.Number(strconv.FormatUint(n, 10))
	return p, true
}

// Text returns the form that SplitProxy parses.
func (p Proxy) Text() Secret {
	address := net.JoinHostPort(p.Address, p.Port.String())
	if p.Login != "" {
		address = p.Login + ":" + p.Password + "@" + address
	}
	return Secret(address)
}
