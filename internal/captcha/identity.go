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

// The types of CAPTCHA, with their names in pools.yaml and in the HTTP API.
const (
	RecaptchaV2 Type = "recaptcha_v2"
	RecaptchaV3 Type = "recaptcha_v3"
	HCaptcha    Type = "hcaptcha"
	Turnstile   Type = "turnstile"

	// A CAPTCHA of the following types belongs to one visit of a page, so its token cannot be bought
	// ahead of time.
	GeeTest   Type = "geetest"
	GeeTestV4 Type = "geetest_v4"
	Image     Type = "image" // a picture of text; the solution is the text
)

// Types lists the poolable types: the types whose tokens can be bought before they are needed.
// Messages name the types in this order.
func Types() []Type {
	return []Type{RecaptchaV2, RecaptchaV3, HCaptcha, Turnstile}
}

// SolvableTypes lists all types of CAPTCHA, the poolable types first.
func SolvableTypes() []Type {
	return append(Types(), GeeTest, GeeTestV4, Image)
}

// Identity contains all parameters that affect how a CAPTCHA is solved. A token bought for one
// identity is never handed out for another. Identities are comparable. The zero value of a field
// means that the solve does not specify the field. ProxyType is "" if Proxy is "".
//
// The struct tags describe the fields as keys of pools.yaml, of the body of POST /solve, and of
// submitted tasks; package targets reads the tags. The JSON encoding of an identity, which the
// journal of orders stores, omits the proxy.
type Identity struct {
	Type       Type    `key:"type" json:"type,omitempty" must:"yes" as:"type" not:"defaults" doc:"The kind of CAPTCHA."`
	Sitekey    string  `key:"sitekey" json:"sitekey" must:"yes" form:"[!-~]{1,256}" want:"1 to 256 characters without spaces" of:"recaptcha_v2 recaptcha_v3 hcaptcha turnstile" not:"defaults" doc:"The site key that the page shows to the CAPTCHA's vendor."`
	Pageurl    string  `key:"pageurl" json:"pageurl" must:"yes" as:"pageurl" of:"recaptcha_v2 recaptcha_v3 hcaptcha turnstile geetest geetest_v4" not:"defaults" doc:"The whole address of the page that shows the CAPTCHA."`
	Invisible  bool    `key:"invisible" json:"invisible,omitempty" default:"false" of:"recaptcha_v2" not:"defaults" doc:"The variant without the checkbox. recaptcha_v2 only."`
	Enterprise bool    `key:"enterprise" json:"enterprise,omitempty" default:"false" of:"recaptcha_v2 recaptcha_v3" not:"defaults" doc:"reCAPTCHA Enterprise. recaptcha_v2 and recaptcha_v3 only."`
	Action     string  `key:"action" json:"action,omitempty" of:"recaptcha_v3 turnstile" not:"defaults" doc:"The action that the page names. recaptcha_v3 and turnstile only."`
	MinScore   float64 `key:"min_score" json:"min_score,omitempty" range:"0.1 0.9" of:"recaptcha_v3" not:"defaults" doc:"The lowest score to request. recaptcha_v3 only."`
	Data       string  `key:"data" json:"data,omitempty" of:"turnstile" not:"defaults" doc:"The value of cData on the page. turnstile only."`
	UserAgent  string  `key:"user_agent" json:"user_agent,omitempty" of:"recaptcha_v2 recaptcha_v3 hcaptcha turnstile geetest geetest_v4" doc:"The browser that the solver imitates. Default: the solver's choice."`
	Proxy      Secret  `key:"proxy" json:"-" as:"proxy" of:"recaptcha_v2 recaptcha_v3 hcaptcha turnstile geetest geetest_v4" doc:"host:port or user:password@host:port of the proxy that the solver uses; empty is none. Default: the solver's own."`
	ProxyType  string  `key:"proxy_type" json:"-" words:"http https socks4 socks5" of:"recaptcha_v2 recaptcha_v3 hcaptcha turnstile geetest geetest_v4" doc:"Required with proxy."`

	// The following fields belong to one visit of a page, so a target cannot have them.
	DataS     string  `key:"data_s" json:"data_s,omitempty" as:"long" of:"recaptcha_v2" not:"defaults target" doc:"The value of data-s on the page. recaptcha_v2 only."`
	RQData    string  `key:"rqdata" json:"rqdata,omitempty" as:"long" of:"hcaptcha" not:"defaults target" doc:"The value of rqdata on the page. hcaptcha only."`
	GT        string  `key:"gt" json:"gt,omitempty" must:"yes" form:"[!-~]{1,256}" want:"1 to 256 characters without spaces" of:"geetest" not:"defaults target" doc:"The site's key. geetest only."`
	Challenge string  `key:"challenge" json:"challenge,omitempty" must:"yes" form:"[!-~]{1,256}" want:"1 to 256 characters without spaces" of:"geetest" not:"defaults target" doc:"The challenge of this visit of the page. geetest only."`
	APIServer string  `key:"api_server" json:"api_server,omitempty" form:"[A-Za-z0-9.-]{1,253}" want:"a host's name such as api-na.geetest.com" of:"geetest" not:"defaults target" doc:"The host that the page loads GeeTest from. Default: the usual one. geetest only."`
	CaptchaID string  `key:"captcha_id" json:"captcha_id,omitempty" must:"yes" form:"[!-~]{1,256}" want:"1 to 256 characters without spaces" of:"geetest_v4" not:"defaults target" doc:"The site's key. geetest_v4 only."`
	Picture   Picture `inline:"yes" json:"image,omitzero"`
}

// Picture describes the picture of a CAPTCHA of type Image, and how to read the text in the picture.
// The zero value means that there is no picture. Picture contains only the hash of the bytes. The
// caller must keep the bytes until the order is submitted.
type Picture struct {
	SHA256        string  `json:"sha256"` // hash of the picture's bytes, 64 lower-case hex digits
	Charset       Charset `key:"charset" json:"charset,omitempty" words:"digits letters digits_or_letters digits_and_letters" of:"image" not:"defaults target" doc:"The characters of a picture's text. Default: unspecified."`
	CaseSensitive bool    `key:"case_sensitive" json:"case_sensitive,omitempty" of:"image" not:"defaults target" doc:"Whether small and capital letters of a picture differ."`
	MinLength     int     `key:"min_length" json:"min_length,omitempty" range:"1 100" of:"image" not:"defaults target" doc:"Shortest text of a picture. Default: unspecified."`
	MaxLength     int     `key:"max_length" json:"max_length,omitempty" range:"1 100" of:"image" not:"defaults target" doc:"Longest text of a picture; not below min_length. Default: unspecified."`
	Phrase        bool    `key:"phrase" json:"phrase,omitempty" of:"image" not:"defaults target" doc:"Whether a picture's text has several words."`
	Math          bool    `key:"math" json:"math,omitempty" of:"image" not:"defaults target" doc:"Whether a picture's text is a calculation, whose result is wanted."`
	Language      string  `key:"language" json:"language,omitempty" form:"[a-z]{2}" want:"a code of ISO 639-1 such as en" of:"image" not:"defaults target" doc:"Language of a picture's text. Default: unspecified."`
	Instructions  string  `key:"instructions" json:"instructions,omitempty" of:"image" not:"defaults target" doc:"Instructions for the person who reads the picture."`
}

// Charset is the set of characters that the text of a picture can contain.
type Charset string

// The character sets. An empty Charset means that the set is unknown.
const (
	Digits           Charset = "digits"
	Letters          Charset = "letters"
	DigitsOrLetters  Charset = "digits_or_letters"  // only digits or only letters
	DigitsAndLetters Charset = "digits_and_letters" // digits and letters, mixed
)

// ID is the hash of an identity, 32 lower-case hex digits. Redis keys and the HTTP API contain this
// hash.
type ID string

// Site returns the identifier that the vendor of the CAPTCHA gave the site: the sitekey, gt or
// captcha_id. Site returns "" for a picture.
func (i Identity) Site() string { return cmp.Or(i.Sitekey, i.GT, i.CaptchaID) }

// ID returns the hash of the identity. Equal identities must have equal IDs on every replica and in
// every version of poold. If this function changes, all tokens in stock become unreachable.
func (i Identity) ID() ID {
	var b strings.Builder
	add := func(field string) {
		// The length before each field makes ("ab","c") differ from ("a","bc").
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
	// New fields follow here. Each field is added with its name, and only if it is not zero. The IDs
	// of
	// identities without these fields therefore stay the same.
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

// unlessZero formats a value as text; the zero value becomes "".
func unlessZero[T comparable](value T) string {
	var zero T
	if value == zero {
		return ""
	}
	return fmt.Sprint(value)
}
