package wire

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"poold/internal/captcha"
)

// checkIdentity gives the code for the first thing that is wrong with what a
// submit asked for, "" for nothing. keyCode is the one for the sitekey.
func checkIdentity(id captcha.Identity, keyCode string) string {
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	switch id.Type {
	case captcha.Image:
	case captcha.GeeTest:
		if !isHex32(id.GT) || id.Challenge == "" {
			return CodeBadParams
		}
	case captcha.GeeTestV4:
		if !isHex32(id.CaptchaID) {
			return CodeCaptchaID
		}
	default:
		if id.Sitekey == "" || strings.ContainsFunc(id.Sitekey, odd) {
			return keyCode
		}
	}
	switch {
	case id.Type != captcha.Image && !isWebURL(id.Pageurl):
		return CodePageurl
	case !(id.MinScore >= 0 && id.MinScore <= 1): // NaN is no score either
		return CodeBadParams
	case id.Proxy == "" && id.ProxyType != "":
		return CodeBadParams
	case id.Proxy != "" && !isProxy(id.Proxy.Reveal(), id.ProxyType):
		return CodeBadProxy
	}
	return ""
}

func isWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// isProxy accepts [user:password@]host:port with one of the four types.
func isProxy(text, kind string) bool {
	switch kind {
	case "http", "https", "socks4", "socks5":
	default:
		return false
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if !strings.Contains(text[:at], ":") {
			return false
		}
		text = text[at+1:]
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// isHex32 is what GeeTest's keys are.
func isHex32(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// IsRecaptcha reports whether a type is a reCAPTCHA.
func IsRecaptcha(t captcha.Type) bool {
	return t == captcha.RecaptchaV2 || t == captcha.RecaptchaV3
}
