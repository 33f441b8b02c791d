package captcha

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Type is a kind of CAPTCHA whose token can be bought before it is needed.
type Type string

// The poolable types. Their text is what pools.yaml and the HTTP answers use.
const (
	RecaptchaV2 Type = "recaptcha_v2"
	RecaptchaV3 Type = "recaptcha_v3"
	HCaptcha    Type = "hcaptcha"
	Turnstile   Type = "turnstile"
)

// Types lists the poolable types in the order in which messages name them.
func Types() []Type {
	return []Type{RecaptchaV2, RecaptchaV3, HCaptcha, Turnstile}
}

// Identity is everything that shapes a solve. A token bought for one identity
// is never handed out for another. It is
// comparable; the zero value names nothing.
type Identity struct {
	Type       Type
	Sitekey    string
	Pageurl    string
	Invisible  bool    // reCAPTCHA v2 without the checkbox
	Enterprise bool    // reCAPTCHA Enterprise
	Action     string  // reCAPTCHA v3 and Turnstile; "" = none
	MinScore   float64 // reCAPTCHA v3; 0 = not asked for
	Data       string  // Turnstile's cData; "" = none
	UserAgent  string  // the browser that the solver shall pretend to be; "" = its choice
	Proxy      Secret  // user:password@host:port; "" = the service's own address
	ProxyType  string  // http | https | socks4 | socks5; "" without a proxy
}

// ID names an identity in Redis keys and on the wire: 32 lower-case hex digits.
type ID string

// ID hashes the identity. Equal identities have equal IDs on every replica and
// in every version: a change of this function abandons all stock.
func (i Identity) ID() ID {
	var b strings.Builder
	for _, field := range []string{
		string(i.Type), i.Sitekey, i.Pageurl,
		strconv.FormatBool(i.Invisible), strconv.FormatBool(i.Enterprise), i.Action,
		strconv.FormatFloat(i.MinScore, 'g', -1, 64), i.Data, i.UserAgent,
		i.Proxy.Reveal(), i.ProxyType,
	} {
		// The length in front keeps ("ab","c") and ("a","bc") apart.
		b.WriteString(strconv.Itoa(len(field)))
		b.WriteByte(':')
		b.WriteString(field)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return ID(hex.EncodeToString(sum[:16]))
}
