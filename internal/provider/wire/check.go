package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"poold/internal/captcha"
)

// check refuses an order with an invalid URL for the result, which the named field has, or with an invalid identity.
func (o *Order) check(pingbackField string) {
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.refuse(CodeBadParams, pingbackField)
	}
	o.refuse(checkIdentity(o.Identity))
}

// checkIdentity returns the error code for the first invalid field of an identity, and the key of
// this field in pools.yaml. For a valid identity it returns "".
func checkIdentity(id captcha.Identity) (code, field string) {
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	kind := captcha.Of(id.Type)
	for _, key := range kind.Must() {
		value := text(id.Ptr(key))
		ofGeetest := key == "gt" || key == "captcha_id"
		switch {
		case key == "pageurl", value != "" && !strings.ContainsFunc(value, odd) && (!ofGeetest || isHex32(value)):
		case key == "captcha_id":
			return CodeCaptchaID, key
		case IsRecaptcha(id.Type):
			return CodeGooglekey, key
		default:
			return CodeBadParams, key
		}
	}
	switch {
	case kind.Has("pageurl") && !isWebURL(id.Pageurl):
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
	Kind, Address   string // Kind is http, https, socks4 or socks5
	Port            json.Number
	Login, Password string
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

// isHex32 reports whether a text consists of 32 lower-case hex digits, like the keys of a GeeTest.
func isHex32(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// IsRecaptcha reports whether a type is one of the types of reCAPTCHA.
func IsRecaptcha(t captcha.Type) bool {
	return captcha.Of(t).Report == "Recaptcha"
}

// readPicture stores the bytes of the order's picture and their hash. The error is that of base64.
func (o *Order) readPicture(image []byte, err error) {
	o.Image = image
	switch {
	case err != nil:
		o.refuse(CodeUpload, "body")
	case len(o.Image) == 0:
		o.refuse(CodeNoImage, "body")
	case len(o.Image) > captcha.MostPicture:
		o.refuse(CodeTooBig, "body")
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, http.DetectContentType(o.Image)):
		o.refuse(CodeImageKind, "body")
	default:
		hash := sha256.Sum256(o.Image)
		o.Identity.Picture.SHA256 = hex.EncodeToString(hash[:])
	}
}
