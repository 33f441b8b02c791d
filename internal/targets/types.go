package targets

import (
	"reflect"
	"strings"
	"time"

	"poold/internal/captcha"
)

// life has the lifetime and the margin of the tokens of a type.
type life struct {
	Lifetime time.Duration `key:"lifetime" range:"1s 24h" default:"2m" doc:"A token expires this long after it was solved."`
	Margin   time.Duration `key:"margin" range:"0s 24h" default:"40s" doc:"A token is not handed out in this last part of its lifetime; below the lifetime."`
}

// lifetimes is the section types of pools.yaml.
type lifetimes struct {
	RecaptchaV2 life          `key:"recaptcha_v2" doc:"Tokens of this type."`
	RecaptchaV3 life          `key:"recaptcha_v3" doc:"Tokens of this type."`
	HCaptcha    life          `key:"hcaptcha" doc:"Tokens of this type."`
	Turnstile   turnstileLife `key:"turnstile" doc:"Tokens of this type."`
}

// turnstileLife is a life with the defaults for Turnstile.
type turnstileLife struct {
	Lifetime time.Duration `key:"lifetime" range:"1s 24h" default:"5m" doc:"A token expires this long after it was solved."`
	Margin   time.Duration `key:"margin" range:"0s 24h" default:"50s" doc:"A token is not handed out in this last part of its lifetime; below the lifetime."`
}

// byType returns the life of each poolable type. If the margin of a type is not less than the
// lifetime, byType reports one problem and uses the default life. Otherwise, each target of the
// type would have the same problem.
func (l *lifetimes) byType(e entry) map[captcha.Type]life {
	all := make(map[captcha.Type]life)
	for i, l := range []life{l.RecaptchaV2, l.RecaptchaV3, l.HCaptcha, life(l.Turnstile)} {
		t := captcha.Types()[i]
		if sub := e.firstEntry(string(t)); sub.hasInvalid("lifetime", "margin") || !sub.checkMargin(l) {
			l = builtInLife(t)
		}
		all[t] = l
	}
	return all
}

// Life returns the lifetime and the margin of the tokens of a type, from the section `types` or
// else from the built-in values. A target may override both. Types that cannot be pooled always
// have a lifetime of 120 s and a margin of 40 s.
func (s *Set) Life(t captcha.Type) (lifetime, margin time.Duration) {
	l, known := s.lifetimes[t]
	if !known {
		l = builtInLife(t)
	}
	return l.Lifetime, l.Margin
}

// builtIn has the defaults of the section types. The vendors document these lifetimes. The margins
// give callers enough time to use a token at the site.
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

// poolableType is the kind of types whose tokens can be bought ahead of time. Any other type is an
// error, but is stored nevertheless, because the type explains why other keys are missing.
var poolableType = textual{words: poolableWord.words, parse: func(e scalar) (any, string) {
	if reason := unpoolableType(e.text); reason != "" {
		return e.text, reason
	}
	return poolableWord.parse(e)
}}

var poolableWord = oneOf(captcha.Types()...)

const (
	onePicture = "its answer fits only one picture or question, so it cannot be solved ahead"
	oneVisit   = "it is made for one visit of the page, so it cannot be solved ahead"
)

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// normalise returns a form of the word that is the same for the spellings of all services.
func normalise(word string) string { return separators.Replace(strings.ToLower(word)) }

// unpoolableType returns why a type of CAPTCHA cannot be bought ahead of time. It returns "" for
// poolable types and for unknown words.
func unpoolableType(name string) string {
	var reason string
	switch normalise(name) {
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

// unpoolableField returns why a target cannot have a key that belongs to an unpoolable type. It
// returns "" for other keys.
func unpoolableField(name string) string {
	var reason string
	switch normalise(name) {
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
