package wire

import (
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"poold/internal/captcha"
)

// checkIdentity returns the error code for the first invalid field of an identity, and the key of
// this field in pools.yaml. For a valid identity it returns "".
func checkIdentity(id captcha.Identity) (code, field string) {
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	switch id.Type {
	case captcha.Image:
	case captcha.GeeTest:
		if !isHex32(id.GT) {
			return CodeBadParams, "gt"
		}
		if id.Challenge == "" {
			return CodeBadParams, "challenge"
		}
	case captcha.GeeTestV4:
		if !isHex32(id.CaptchaID) {
			return CodeCaptchaID, "captcha_id"
		}
	default:
		if id.Sitekey == "" || strings.ContainsFunc(id.Sitekey, odd) {
			if IsRecaptcha(id.Type) {
				return CodeGooglekey, "sitekey"
			}
			return CodeBadParams, "sitekey"
		}
	}
	switch {
	case id.Type != captcha.Image && !isWebURL(id.Pageurl):
		return CodePageurl, "pageurl"
	case !(id.MinScore >= 0 && id.MinScore <= 1): // this form of the condition also refuses NaN
		return CodeBadParams, "min_score"
	case id.Proxy == "" && id.ProxyType != "":
		return CodeBadParams, "proxy"
	case id.Proxy != "" && !isProxy(id.Proxy.Reveal(), id.ProxyType):
		return CodeBadProxy, "proxy"
	}
	return "", ""
}

func isWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// isProxy reports whether a text has the form [user:password@]host:port and whether the kind is
// http, https, socks4 or socks5.
func isProxy(text, kind string) bool {
	_, valid := SplitProxy(text)
	at := strings.LastIndexByte(text, '@')
	return valid && (at < 0 || strings.Contains(text[:at], ":")) &&
		slices.Contains([]string{"http", "https", "socks4", "socks5"}, kind)
}

// Proxy contains the fields for a proxy in the tasks protocol.
type Proxy struct {
	Kind     string      `json:"proxyType,omitempty"` // http, https, socks4 or socks5
	Address  string      `json:"proxyAddress,omitempty"`
	Port     json.Number `json:"proxyPort,omitempty"`
	Login    string      `json:"proxyLogin,omitempty"`
	Password string      `json:"proxyPassword,omitempty"`
}

// SplitProxy parses [user:password@]host:port. A password may contain '@' and ':'.
func SplitProxy(text string) (p Proxy, ok bool) {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		p.Login, p.Password, _ = strings.Cut(text[:at], ":")
		text = text[at+1:]
	}
	host, port, err := net.SplitHostPort(text)
	n, invalid := strconv.ParseUint(port, 10, 16)
	if err != nil || invalid != nil || host == "" || n == 0 {
		return Proxy{}, false
	}
	p.Address, p.Port = host, json.Number(strconv.FormatUint(n, 10))
	return p, true
}

// text returns the proxy in the form of captcha.Identity.Proxy:
// [user:password@]host:port.
func (p Proxy) text() string {
	address := net.JoinHostPort(p.Address, p.Port.String())
	if p.Login != "" {
		address = p.Login + ":" + p.Password + "@" + address
	}
	return address
}

// isSet reports whether the call contains any field of the proxy.
func (p Proxy) isSet() bool { return p != Proxy{} && p != Proxy{Port: "0"} }

// isHex32 reports whether a text consists of 32 lower-case hex digits, like the keys of a GeeTest.
func isHex32(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// IsRecaptcha reports whether a type is one of the types of reCAPTCHA.
func IsRecaptcha(t captcha.Type) bool {
	return t == captcha.RecaptchaV2 || t == captcha.RecaptchaV3
}
