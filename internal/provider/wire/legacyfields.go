package wire

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// legacyMethods lists the values of the fields `method` and `version` of in.php for each type of
// CAPTCHA. An empty version matches any version. A client sends the values in the first row for its
// type. A server takes the type from the first row that matches the call.
var legacyMethods = []struct {
	kind            captcha.Type
	method, version string
}{
	{captcha.RecaptchaV3, "userrecaptcha", "v3"},
	{captcha.RecaptchaV2, "userrecaptcha", ""},
	{captcha.HCaptcha, "hcaptcha", ""},
	{captcha.Turnstile, "turnstile", ""},
	{captcha.GeeTestV4, "geetest_v4", ""},
	{captcha.GeeTestV4, "geetest", "4"}, // the values that captchaai uses
	{captcha.GeeTest, "geetest", ""},
	{captcha.Image, "base64", ""},
	{captcha.Image, "post", ""}, // the picture is a file of a multipart form
}

// legacyField is a field of in.php. The member ptr points to the corresponding field of an
// identity, and is a *string, *bool, *int, *float64, *captcha.Charset or *captcha.Secret.
type legacyField struct {
	name string
	ptr  any
}

// anyService is a service name that selects the fields of all services.
const anyService = "any"

// legacyFields lists the fields of in.php for an identity of this type. LegacyForm writes these
// fields, and ReadLegacy reads them.
func legacyFields(id *captcha.Identity, method, service string) []legacyField {
	fields := []legacyField{
		{"pageurl", &id.Pageurl}, {"invisible", &id.Invisible}, {"enterprise", &id.Enterprise}, {"action", &id.Action},
		{"min_score", &id.MinScore}, {"userAgent", &id.UserAgent}, {"proxy", &id.Proxy},
	}
	p := &id.Picture
	switch id.Type {
	case captcha.RecaptchaV2, captcha.RecaptchaV3:
		return append(fields, legacyField{"googlekey", &id.Sitekey}, legacyField{"data-s", &id.DataS})
	case captcha.HCaptcha:
		return append(fields, legacyField{"sitekey", &id.Sitekey}, legacyField{"data", &id.RQData})
	case captcha.Turnstile:
		return append(fields, legacyField{"sitekey", &id.Sitekey}, legacyField{"data", &id.Data})
	case captcha.GeeTest:
		return append(fields, []legacyField{
			{"gt", &id.GT}, {"challenge", &id.Challenge}, {"api_server", &id.APIServer},
		}...)
	case captcha.GeeTestV4:
		if method == "geetest" {
			return append(fields, legacyField{"gt", &id.CaptchaID})
		}
		return append(fields, legacyField{"captcha_id", &id.CaptchaID})
	case captcha.Image:
		fields = append(fields, []legacyField{
			{"numeric", &p.Charset}, {"regsense", &p.CaseSensitive}, {"phrase", &p.Phrase}, {"calc", &p.Math},
			{"min_len", &p.MinLength}, {"max_len", &p.MaxLength}, {"lang", &p.Language}, {"textinstructions", &p.Instructions},
		}...)
		if service == captchaAI || service == anyService { // the clients of captchaai and captchaai's manual use different names
			fields = append(fields, legacyField{"minLen", &p.MinLength}, legacyField{"maxLen", &p.MaxLength})
		}
	}
	return fields
}

// knownLegacy lists the fields of a submission that ReadLegacy reads.
var knownLegacy = func() []string {
	known := strings.Fields("key method json header_acao pingback proxytype version datas body")
	for _, row := range legacyMethods {
		for _, field := range legacyFields(&captcha.Identity{Type: row.kind}, row.method, anyService) {
			known = append(known, field.name)
		}
	}
	return known
}()

// LegacyForm returns the form for a submission to a service's in.php, without the key. The argument
// image is nil except for pictures. The error names what the protocol cannot express.
func LegacyForm(id captcha.Identity, image []byte, service string) (url.Values, error) {
	form := url.Values{}
	set := func(name, value string) {
		if value != "" {
			form.Set(name, value)
		}
	}
	for _, row := range legacyMethods {
		if row.kind == id.Type && (row.version == "4") == (id.Type == captcha.GeeTestV4 && service == captchaAI) {
			set("method", row.method)
			set("version", row.version)
			break
		}
	}
	if !form.Has("method") {
		return nil, fmt.Errorf("the legacy protocol has no method for type %q", id.Type)
	}
	for _, field := range legacyFields(&id, form.Get("method"), service) {
		set(field.name, field.text())
	}
	set("proxytype", strings.ToUpper(id.ProxyType))
	if id.Type == captcha.Image {
		form.Set("body", base64.StdEncoding.EncodeToString(image))
	}
	return form, nil
}

// text formats the value of the field for a form. An empty text means that the form
// omits the field.
func (f legacyField) text() string {
	n := 0
	switch at := f.ptr.(type) {
	case *string:
		return *at
	case *captcha.Secret:
		return at.Reveal()
	case *bool:
		if *at {
			n = 1
		}
	case *int:
		n = *at
	case *captcha.Charset:
		n = slices.Index(charsets, *at)
	case *float64:
		if *at != 0 {
			return strconv.FormatFloat(*at, 'f', -1, 64)
		}
	}
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// read parses a text into the identity's field, and reports whether the text is valid.
// Some clients send booleans as the JavaScript words true and false.
func (f legacyField) read(text string) bool {
	var err error
	var valid bool
	switch at := f.ptr.(type) {
	case *string:
		*at = text
	case *captcha.Secret:
		*at = captcha.Secret(text)
	case *bool:
		*at = text == "1" || text == "true"
		return *at || text == "0" || text == "false"
	case *int:
		*at, err = strconv.Atoi(text)
	case *float64:
		*at, err = strconv.ParseFloat(text, 64)
	case *captcha.Charset:
		var n int
		if n, err = strconv.Atoi(text); err == nil {
			*at, valid = charsetOf(n)
			return valid
		}
	}
	return err == nil
}
