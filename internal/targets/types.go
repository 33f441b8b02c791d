package targets

import (
	"strings"
	"time"

	"poold/internal/captcha"
)

// builtInLife is what the vendors say of their tokens' life, and the part of it
// that is kept back so that a token still arrives in time at the site.
func builtInLife(t captcha.Type) life {
	if t == captcha.Turnstile {
		return life{300 * time.Second, 50 * time.Second}
	}
	return life{120 * time.Second, 40 * time.Second}
}

// readType reads a type that can be solved ahead.
func readType(v value, dst *captcha.Type) bool {
	var names []string
	for _, t := range captcha.Types() {
		names = append(names, string(t))
	}
	e, ok := v.expansion((*string)(dst))
	if reason := unpoolableType(e.text); ok && reason != "" {
		return v.fail("%s", reason)
	}
	return ok && v.choice((*string)(dst), names...)
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
