package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

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
