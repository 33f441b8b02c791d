package simulated

import (
	"encoding/json"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// Shape is how an answer of the legacy protocol writes the values of a GeeTest. The
// tasks protocol has one shape.
type Shape string

// The shapes in which services answer. Plain text has the first two alone.
const (
	ShapeList   Shape = "list"   // a text of name:value with commas
	ShapeText   Shape = "text"   // a JSON object as text
	ShapeObject Shape = "object" // a JSON object in `request`
	ShapeFields Shape = "fields" // fields beside `status`
)

// valueOrder is the order in which a list has the values of a type.
var valueOrder = map[captcha.Type][]string{
	captcha.GeeTest:   {"challenge", "validate", "seccode"},
	captcha.GeeTestV4: {"captcha_id", "lot_number", "pass_token", "gen_time", "captcha_output"},
}

// values are the named values that solve a GeeTest, nil for other types. One of them contains
// the mark of the token.
func (t *task) values(opts *Options) map[string]string {
	mark := t.marked(opts.TokenBytes)
	switch t.identity.Type {
	case captcha.GeeTest:
		prefix := t.prefix(opts)
		return map[string]string{
			prefix + "challenge": t.identity.Challenge + "k7", prefix + "validate": mark, prefix + "seccode": mark + "|jordan",
		}
	case captcha.GeeTestV4:
		return map[string]string{
			"captcha_id": t.identity.CaptchaID, "lot_number": strconv.FormatUint(t.lot, 16), "pass_token": mark,
			"gen_time": strconv.FormatInt(t.due.Unix(), 10), "captcha_output": "b3V0cHV0+/==",
		}
	}
	return nil
}

// prefix is what 2captcha's first protocol has before the names of version 3.
func (t *task) prefix(opts *Options) string {
	if t.legacy && opts.Flavour == TwoCaptcha && t.identity.Type == captcha.GeeTest {
		return "geetest_"
	}
	return ""
}

// written is the values as one text.
func (t *task) written(opts *Options) string {
	values := t.values(opts)
	if !t.legacy || opts.Shape != ShapeList {
		text, _ := json.Marshal(values) // texts alone
		return string(text)
	}
	list := make([]string, 0, len(values))
	for _, name := range valueOrder[t.identity.Type] {
		name = t.prefix(opts) + name
		list = append(list, name+":"+values[name])
	}
	return strings.Join(list, ",")
}
