package captcha

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Type is a kind of CAPTCHA.
type Type string

// The types. Their text is what pools.yaml and the HTTP API use.
const (
	RecaptchaV2 Type = "recaptcha_v2"
	RecaptchaV3 Type = "recaptcha_v3"
	HCaptcha    Type = "hcaptcha"
	Turnstile   Type = "turnstile"

	// What follows belongs to one visit of a page, so that it cannot be solved ahead.
	GeeTest   Type = "geetest"
	GeeTestV4 Type = "geetest_v4"
	Image     Type = "image" // a picture of letters, whose answer is its text
)

// Types lists the poolable types, those whose token can be bought before it is
// needed, in the order in which messages name them.
func Types() []Type {
	return []Type{RecaptchaV2, RecaptchaV3, HCaptcha, Turnstile}
}

// SolvableTypes lists all types, the poolable ones first.
func SolvableTypes() []Type {
	return append(Types(), GeeTest, GeeTestV4, Image)
}

// Identity is everything that shapes a solve. A token bought for one identity
// is never handed out for another. It is comparable; the zero value names nothing.
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

	// What follows is of one visit of a page: no target has it.
	DataS     string // reCAPTCHA v2's data-s; "" = none
	RQData    string // hCaptcha's rqdata; "" = none
	GT        string // of GeeTest v3
	Challenge string // of GeeTest v3; serves once, and not for long
	CaptchaID string // of GeeTest v4
	APIServer string // of GeeTest v3; "" = the usual one
	Picture   Picture
}

// Picture is the image of an Image, and how its text is to be read. The zero value is
// none. Its bytes are not in here: they belong to who asks, until the submit.
type Picture struct {
	SHA256        string // of the bytes, 64 lower-case hex digits
	Charset       Charset
	CaseSensitive bool
	MinLength     int    // of the text; 0 = not said
	MaxLength     int    // of the text; 0 = not said
	Phrase        bool   // the text has several words
	Math          bool   // the text is a sum, and its result is wanted
	Language      string // ISO 639-1 code of the text; "" = not said
	Instructions  string // for the person who reads it; "" = none
}

// Charset says which characters the text of a picture has.
type Charset string

// The character sets; "" = not said.
const (
	Digits           Charset = "digits"
	Letters          Charset = "letters"
	DigitsOrLetters  Charset = "digits_or_letters"  // either, but not both
	DigitsAndLetters Charset = "digits_and_letters" // both
)

// ID names an identity in Redis keys and on the wire: 32 lower-case hex digits.
type ID string

// Site is what names the site at the vendor: its site key, gt or captcha_id; "" for a
// picture.
func (i Identity) Site() string { return cmp.Or(i.Sitekey, i.GT, i.CaptchaID) }

// ID hashes the identity. Equal identities have equal IDs on every replica and
// in every version: a change of this function abandons all stock.
func (i Identity) ID() ID {
	var b strings.Builder
	add := func(field string) {
		// The length in front keeps ("ab","c") and ("a","bc") apart.
		b.WriteString(strconv.Itoa(len(field)))
		b.WriteByte(':')
		b.WriteString(field)
	}
	for _, field := range []string{
		string(i.Type), i.Sitekey, i.Pageurl,
		strconv.FormatBool(i.Invisible), strconv.FormatBool(i.Enterprise), i.Action,
		strconv.FormatFloat(i.MinScore, 'g', -1, 64), i.Data, i.UserAgent,
		i.Proxy.Reveal(), i.ProxyType,
	} {
		add(field)
	}
	// Fields that came later stand behind, with their names, and only where they say
	// something, so that the IDs of before are as they were.
	for _, field := range []struct{ name, value string }{
		{"data_s", i.DataS}, {"rqdata", i.RQData}, {"gt", i.GT}, {"challenge", i.Challenge},
		{"captcha_id", i.CaptchaID}, {"api_server", i.APIServer},
		{"image", i.Picture.SHA256}, {"charset", string(i.Picture.Charset)},
		{"case_sensitive", unlessZero(i.Picture.CaseSensitive)}, {"phrase", unlessZero(i.Picture.Phrase)},
		{"math", unlessZero(i.Picture.Math)}, {"language", i.Picture.Language},
		{"min_length", unlessZero(i.Picture.MinLength)}, {"max_length", unlessZero(i.Picture.MaxLength)},
		{"instructions", i.Picture.Instructions},
	} {
		if field.value != "" {
			add(field.name)
			add(field.value)
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return ID(hex.EncodeToString(sum[:16]))
}

// unlessZero is the text of a value, "" for the zero value.
func unlessZero[T comparable](value T) string {
	var zero T
	if value == zero {
		return ""
	}
	return fmt.Sprint(value)
}
