package captcha

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

// Type is a kind of CAPTCHA.
type Type string

// The types of CAPTCHA, with their names in pools.yaml and in the HTTP API. Kinds has the properties of each.
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

// Identity contains all parameters that affect how a CAPTCHA is solved. A token bought for one
// identity is never handed out for another. Identities are comparable. The zero value of a field
// means that the solve does not specify the field. ProxyType is "" if Proxy is "".
//
// The yaml tags name the keys of pools.yaml and of the body of POST /solve; package targets checks
// the values and takes the reference from the comments of the fields. The JSON encoding of an
// identity, which the journal of orders stores, omits the proxy.
type Identity struct {
	// The kind of CAPTCHA. One of recaptcha_v2, recaptcha_v3, hcaptcha, turnstile, geetest, geetest_v4, image.
	// Required.
	Type Type `yaml:"type" json:"type,omitempty"`
	// The site key that the page shows to the CAPTCHA's vendor. Required in a target.
	Sitekey string `yaml:"sitekey" form:"^[!-~]{1,256}$ 1 to 256 characters without spaces" json:"sitekey"`
	// The whole address of the page that shows the CAPTCHA. Required in a target.
	Pageurl string `yaml:"pageurl" nonempty:"true" json:"pageurl"`
	// The variant without the checkbox. recaptcha_v2 only.
	Invisible bool `yaml:"invisible" json:"invisible,omitempty"`
	// reCAPTCHA Enterprise. recaptcha_v2 and recaptcha_v3 only.
	Enterprise bool `yaml:"enterprise" json:"enterprise,omitempty"`
	// The action that the page names. recaptcha_v2 and recaptcha_v3 and turnstile only.
	Action string `yaml:"action" json:"action,omitempty"`
	// The lowest score to request. recaptcha_v3 only. 0.1 to 0.9.
	MinScore float64 `yaml:"min_score" range:"0.1 to 0.9" json:"min_score,omitempty"`
	// The value of cData on the page. turnstile only.
	Data string `yaml:"data" json:"data,omitempty"`
	// The browser that the solver imitates. Without it: the solver's choice.
	UserAgent string `yaml:"user_agent" json:"user_agent,omitempty"`
	// host:port or user:password@host:port of the proxy that the solver uses; empty is none. Without it: the
	// solver's own.
	Proxy Secret `yaml:"proxy" json:"-"`
	// Required with proxy. One of http, https, socks4, socks5.
	ProxyType string `yaml:"proxy_type" oneof:"http https socks4 socks5" json:"-"`

	// The following fields belong to one visit of a page, so a target cannot have them.

	// The value of data-s on the page. recaptcha_v2 only.
	DataS string `yaml:"data_s" json:"data_s,omitempty"`
	// The value of rqdata on the page. hcaptcha only.
	RQData string `yaml:"rqdata" json:"rqdata,omitempty"`
	// The site's key. geetest only.
	GT string `yaml:"gt" form:"^[!-~]{1,256}$ 1 to 256 characters without spaces" json:"gt,omitempty"`
	// The challenge of this visit of the page. geetest only.
	Challenge string `yaml:"challenge" form:"^[!-~]{1,256}$ 1 to 256 characters without spaces" json:"challenge,omitempty"`
	// The host that the page loads GeeTest from. Without it: the usual one. geetest only.
	APIServer string `yaml:"api_server" form:"^[A-Za-z0-9.-]{1,253}$ a host's name such as api-na.geetest.com" json:"api_server,omitempty"`
	// The site's key. geetest_v4 only.
	CaptchaID string `yaml:"captcha_id" form:"^[!-~]{1,256}$ 1 to 256 characters without spaces" json:"captcha_id,omitempty"`
	Picture   `yaml:",inline" json:"image,omitzero"`
}

// MostPicture is the maximum size of a picture in bytes, according to the solving services.
const MostPicture = 1 << 20

// Picture describes the picture of a CAPTCHA of type Image, and how to read the text in the picture.
// The zero value means no picture. Picture contains only the hash of the bytes. The
// caller must keep the bytes until the order is submitted.
type Picture struct {
	SHA256 string `json:"sha256"` // hash of the picture's bytes, 64 lower-case hex digits
	// The characters of a picture's text. Without it: unspecified. One of digits, letters, digits_or_letters,
	// digits_and_letters.
	Charset Charset `yaml:"charset" oneof:"digits letters digits_or_letters digits_and_letters" json:"charset,omitempty"`
	// Whether small and capital letters of a picture differ.
	CaseSensitive bool `yaml:"case_sensitive" json:"case_sensitive,omitempty"`
	// Shortest text of a picture. Without it: unspecified. 1 to 100.
	MinLength int `yaml:"min_length" range:"1 to 100" json:"min_length,omitempty"`
	// Longest text of a picture; not below min_length. Without it: unspecified. 1 to 100.
	MaxLength int `yaml:"max_length" range:"1 to 100" json:"max_length,omitempty"`
	// Whether a picture's text has several words.
	Phrase bool `yaml:"phrase" json:"phrase,omitempty"`
	// Whether a picture's text is a calculation, whose result is wanted.
	Math bool `yaml:"math" json:"math,omitempty"`
	// Language of a picture's text. Without it: unspecified.
	Language string `yaml:"language" form:"^[a-z]{2}$ a code of ISO 639-1 such as en" json:"language,omitempty"`
	// Instructions for the person who reads the picture.
	Instructions string `yaml:"instructions" json:"instructions,omitempty"`
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

// ID names an identity in Redis keys and in the HTTP API, as in
// turnstile:0x4AAAAAAA:staging.example.com:18a46d277b5abf6e0775328d2a98f395. The hash at the end covers all fields. The
// type, the site key and the page's host before it are for people who read keys. An ID has only letters, digits and
// .:_-
type ID string

// Hash returns the last part of the ID, which is unique to the identity: 32 lower-case hex digits.
func (id ID) Hash() string { return string(id[strings.LastIndexByte(string(id), ':')+1:]) }

// Site returns the identifier that the vendor of the CAPTCHA gave the site: the sitekey, gt or
// captcha_id. Site returns "" for a picture.
func (i Identity) Site() string {
	for _, key := range Of(i.Type).Must() {
		site, _ := i.Ptr(key).(*string)
		return *site
	}
	return ""
}

// ID returns the name of the identity. Equal identities must have equal IDs on every replica and in
// every version of poold. If this function changes, all tokens in stock become unreachable.
func (i Identity) ID() ID {
	host := ""
	if page, err := url.Parse(canonical(i.Pageurl)); err == nil {
		host = page.Hostname()
	}
	var name strings.Builder
	for _, part := range []string{string(i.Type), i.Site(), host} {
		if part = strange.ReplaceAllString(part, "_"); part != "" {
			name.WriteString(part[:min(len(part), mostReadable)] + ":")
		}
	}
	return ID(name.String() + i.hash())
}

// mostReadable limits the parts of an ID that are for people.
const mostReadable = 48

var strange = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// canonical returns a normal form of an address: addresses that the URL standard takes for equal get the same text.
func canonical(page string) string {
	u, err := url.Parse(page)
	if err != nil || u.Host == "" {
		return page
	}
	u.Host, u.Path = strings.ToLower(u.Host), cmp.Or(u.Path, "/")
	u.Host = strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return u.String()
}

// hash returns 32 lower-case hex digits, which depend on each field. The zero value of a new field must be omitted from
// the JSON, so that the IDs of identities without this field stay the same.
func (i Identity) hash() string {
	i.Pageurl = canonical(i.Pageurl)
	text, _ := json.Marshal(struct { // of texts and numbers: no error is possible
		Identity
		Proxy, ProxyType string // the JSON of an Identity omits them
	}{i, i.Proxy.Reveal(), i.ProxyType})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
