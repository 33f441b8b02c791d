package targets

import (
	"strings"
	"time"

	"poold/internal/captcha"
)

// life is how long the tokens of a type can be used.
type life struct{ Lifetime, Margin time.Duration }

// Life is how long a token of a type lives, and how much of the end of its life is not
// handed out, where no target says so itself: the values of the section `types`, else
// the built-in ones. What cannot be pooled has the built-in ones always, 120 s and 40 s.
func (s *Set) Life(t captcha.Type) (lifetime, margin time.Duration) {
	l, known := s.lives[t]
	if !known {
		l = builtInLife(t)
	}
	return l.Lifetime, l.Margin
}

// builtInLife is what the vendors say of their tokens' life, and the part of it
// that is kept back so that a token still arrives in time at the site.
func builtInLife(t captcha.Type) life {
	if t == captcha.Turnstile {
		return life{300 * time.Second, 50 * time.Second}
	}
	return life{120 * time.Second, 40 * time.Second}
}

// poolableType is a type that can be solved ahead, as a string.
var poolableType = textual{words: poolableWord.words, parse: func(e expansion) (any, string) {
	if reason := unpoolableType(e.text); reason != "" {
		return e.text, reason
	}
	return poolableWord.parse(e)
}}

// poolableWord is one of the poolable types, without the reasons why another is none.
var poolableWord = word(captcha.Types()...)

// solvableType is a type that can be asked for now, as a string.
var solvableType = word(captcha.SolvableTypes()...)

// namesOtherType reports whether a target is of a type that cannot be pooled. Such
// types have neither key nor page, or other names for them.
func namesOtherType(target record) bool {
	name, _ := target.marks["type"].got.(string)
	return unpoolableType(name) != ""
}

const (
	onePicture = "its answer fits one picture or question alone, so it cannot be solved ahead"
	oneVisit   = "it is made for one visit of the page, so it cannot be solved ahead"
)

// simple removes the differences of spelling between services.
func simple(word string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(word))
}

// unpoolableType says why a kind of challenge that a solving service offers
// cannot be kept ready, "" for one that is not known as such.
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

// unpoolableField is the same for a key of a target.
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
