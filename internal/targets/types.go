package targets

import (
	"reflect"
	"strings"
	"time"

	"poold/internal/captcha"
)

// life is how long the tokens of a type can be used.
type life struct {
	Lifetime time.Duration `key:"lifetime" range:"1s 24h" default:"2m" doc:"A token expires this long after it was solved."`
	Margin   time.Duration `key:"margin" range:"0s 24h" default:"40s" doc:"A token is not handed out in this last part of its lifetime; below the lifetime."`
}

// lifetimes is the section types.
type lifetimes struct {
	RecaptchaV2 life          `key:"recaptcha_v2" doc:"Tokens of this type."`
	RecaptchaV3 life          `key:"recaptcha_v3" doc:"Tokens of this type."`
	HCaptcha    life          `key:"hcaptcha" doc:"Tokens of this type."`
	Turnstile   turnstileLife `key:"turnstile" doc:"Tokens of this type."`
}

// turnstileLife is a life with other defaults.
type turnstileLife struct {
	Lifetime time.Duration `key:"lifetime" range:"1s 24h" default:"5m" doc:"A token expires this long after it was solved."`
	Margin   time.Duration `key:"margin" range:"0s 24h" default:"50s" doc:"A token is not handed out in this last part of its lifetime; below the lifetime."`
}

// byType returns the life of each type. It reports a margin that is not below the lifetime, and
// replaces that life by the default, so that the targets of the type are not reported too.
func (l *lifetimes) byType(e entry) map[captcha.Type]life {
	all := make(map[captcha.Type]life)
	for i, l := range []life{l.RecaptchaV2, l.RecaptchaV3, l.HCaptcha, life(l.Turnstile)} {
		t := captcha.Types()[i]
		if sub := e.at(string(t)); sub.bad("lifetime", "margin") || !sub.outlives(l) {
			l = builtInLife(t)
		}
		all[t] = l
	}
	return all
}

// Life returns the lifetime and the margin of a type's tokens: from the section types, else
// the built-in ones. A target may have its own. Types that cannot be pooled always
// have 120 s and 40 s.
func (s *Set) Life(t captcha.Type) (lifetime, margin time.Duration) {
	l, known := s.lifetimes[t]
	if !known {
		l = builtInLife(t)
	}
	return l.Lifetime, l.Margin
}

// builtIn is the section types with its defaults: the lifetimes that the vendors document,
// and margins in which a token still arrives at the site in time.
var builtIn = func() (l lifetimes) {
	sectionOf(reflect.TypeFor[lifetimes](), "").preset(reflect.ValueOf(&l).Elem())
	return l
}()

func builtInLife(t captcha.Type) life {
	if t == captcha.Turnstile {
		return life(builtIn.Turnstile)
	}
	return builtIn.RecaptchaV2
}

// poolableType is a type whose tokens can be bought ahead. Another type is an error, but it is
// stored, because it explains missing keys.
var poolableType = textual{words: poolableWord.words, parse: func(e scalar) (any, string) {
	if reason := unpoolableType(e.text); reason != "" {
		return e.text, reason
	}
	return poolableWord.parse(e)
}}

var poolableWord = word(captcha.Types()...)

const (
	onePicture = "its answer fits only one picture or question, so it cannot be solved ahead"
	oneVisit   = "it is made for one visit of the page, so it cannot be solved ahead"
)

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// simple removes differences of spelling between services.
func simple(word string) string { return separators.Replace(strings.ToLower(word)) }

// unpoolableType returns why a kind of challenge that a solving service offers cannot be
// kept ready, or "" for other words.
func unpoolableType(name string) string {
	var reason string
	switch simple(name) {
	case "geetest", "geetestv3", "geetestv4":
		reason = "each challenge is used up by one visit of the page, so it cannot be solved ahead"
	case "image", "normal", "base64", "post", "imagetotext", "text", "audio", "coordinates", "click", "grid", "rotate", "boundingbox":
		reason = onePicture
	case "cloudflarechallenge", "datadome", "amazonwaf", "awswaf":
		reason = "its answer is a cookie for one visitor's address, so it cannot be solved ahead"
	case "funcaptcha", "arkose", "lemin", "capy", "keycaptcha":
		reason = oneVisit
	default:
		return ""
	}
	return "this type cannot be pooled: " + reason
}

// unpoolableField returns why a key of such a type cannot be a target's key, or "".
func unpoolableField(name string) string {
	var reason string
	switch simple(name) {
	case "datas", "rqdata", "pagedata", "chlpagedata":
		reason = oneVisit
	case "gt", "challenge", "captchaid":
		reason = "it belongs to geetest, whose challenges are used up by one visit of the page"
	case "image", "body", "base64", "textcaptcha":
		reason = onePicture
	default:
		return ""
	}
	return "this cannot be pooled: " + reason
}
