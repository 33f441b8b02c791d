package simulated

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
			return codeBadParams
		}
	case captcha.GeeTestV4:
		if !isHex32(id.CaptchaID) {
			return codeCaptchaID
		}
	default:
		if id.Sitekey == "" || strings.ContainsFunc(id.Sitekey, odd) {
			return keyCode
		}
	}
	switch {
	case id.Type != captcha.Image && !isWebURL(id.Pageurl):
		return codePageurl
	case id.MinScore < 0 || id.MinScore > 1:
		return codeBadParams
	case id.Proxy == "" && id.ProxyType != "":
		return codeBadParams
	case id.Proxy != "" && !isProxy(id.Proxy.Reveal(), id.ProxyType):
		return codeBadProxy
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

// flag reads the protocol's booleans.
func flag(values url.Values, name string, bad *string) bool {
	switch values.Get(name) {
	case "", "0":
		return false
	case "1":
		return true
	}
	*bad = codeBadParams
	return false
}

// legacyIdentity reads a submit's parameters, strictly. The identity is as
// complete as they allow, also beside a code.
func legacyIdentity(v url.Values, flavour Flavour) (id captcha.Identity, bad string) {
	id, keyCode, bad := legacyKind(v, flavour)
	if id.Type == "" {
		return id, bad
	}
	id.Pageurl = v.Get("pageurl")
	id.Invisible = flag(v, "invisible", &bad)
	id.Enterprise = flag(v, "enterprise", &bad)
	id.Action, id.UserAgent = v.Get("action"), v.Get("userAgent")
	id.Proxy, id.ProxyType = captcha.Secret(v.Get("proxy")), strings.ToLower(v.Get("proxytype"))
	if score := v.Get("min_score"); score != "" {
		var err error
		if id.MinScore, err = strconv.ParseFloat(score, 64); err != nil {
			bad = codeBadParams
		}
	}
	if bad != "" {
		return id, bad
	}
	return id, checkIdentity(id, keyCode)
}

// legacyKind reads what depends on the method. The type is "" for an unknown one.
// keyCode is what is said of a sitekey that is none.
func legacyKind(v url.Values, flavour Flavour) (id captcha.Identity, keyCode, bad string) {
	keyCode = codeBadParams
	switch v.Get("method") {
	case "userrecaptcha":
		id.Type, id.Sitekey, id.DataS, keyCode = captcha.RecaptchaV2, v.Get("googlekey"), v.Get("data-s"), codeGooglekey
		switch v.Get("version") {
		case "", "v2":
		case "v3":
			id.Type = captcha.RecaptchaV3
		default:
			bad = codeBadParams
		}
	case "hcaptcha":
		id.Type, id.Sitekey, id.RQData = captcha.HCaptcha, v.Get("sitekey"), v.Get("data")
	case "turnstile":
		id.Type, id.Sitekey, id.Data = captcha.Turnstile, v.Get("sitekey"), v.Get("data")
	case "geetest":
		if flavour == CaptchaAI && v.Get("version") == "4" {
			id.Type, id.CaptchaID = captcha.GeeTestV4, v.Get("gt")
			break
		}
		id.Type, id.GT, id.Challenge, id.APIServer = captcha.GeeTest, v.Get("gt"), v.Get("challenge"), v.Get("api_server")
	case "geetest_v4":
		id.Type, id.CaptchaID = captcha.GeeTestV4, v.Get("captcha_id")
	case "base64":
		id.Type = captcha.Image
		id.Picture, bad = legacyPicture(v, flavour)
	default:
		bad = codeBadParams
		if flavour == TwoCaptcha {
			bad = codeNoMethod
		}
	}
	return id, keyCode, bad
}
