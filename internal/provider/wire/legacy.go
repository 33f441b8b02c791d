package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// LegacyCall is a call of in.php or res.php.
type LegacyCall struct {
	Form    Form
	Key     string
	Action  Action
	Word    string // of res.php, the action as it was named
	IDs     []string
	Many    bool // of a Poll: the tasks were named by ids
	Priced  bool // of a Poll: get2, which wants the price beside the token
	Verdict Verdict
	Order   Order // of a Submit
	// Bad is the code where the call could not be read, whatever its action; "" = it could.
	Bad string
}

// Form is how one caller of in.php and res.php wants its answers.
type Form struct{ JSON, CORS bool }

// fields are what a call was sent with.
type fields struct {
	values url.Values
	file   []byte // of a multipart form, the part of that name; nil = none

	flavour Flavour
}

// ReadLegacy reads a call of in.php or res.php: a GET's query, a form, a multipart form
// or a JSON object. What could be read is given also where the call is bad.
func ReadLegacy(r Request, flavour Flavour) LegacyCall {
	f, err := legacyFields(r, flavour)
	v := f.values
	c := LegacyCall{Form: Form{JSON: v.Get("json") == "1", CORS: v.Get("header_acao") == "1"}, Key: v.Get("key")}
	if err != nil || v.Has("clientKey") { // which is the other protocol's
		c.Bad = CodeBadParams
	}
	if r.Path == "/in.php" {
		c.Action, c.Order = Submit, f.order()
		if c.Bad != "" {
			c.Order.Bad = c.Bad
		}
		return c
	}
	c.Word = v.Get("action")
	switch c.Word {
	case "get", "get2":
		c.Action, c.Priced = Poll, c.Word == "get2"
		if ids := v.Get("ids"); ids != "" && !c.Priced {
			c.Many, c.IDs = true, strings.Split(ids, ",")
			return c
		}
		c.IDs = []string{v.Get("id")}
	case "getbalance":
		c.Action = Balance
	case "reportgood", "reportbad":
		c.Action, c.IDs, c.Verdict = Report, []string{v.Get("id")}, Verdict{Good: c.Word == "reportgood"}
	case "threadsinfo":
		c.Action = Threads
	default:
		c.Action, c.IDs = Other, []string{v.Get("id")}
	}
	return c
}

var errTwice = errors.New("a field was given twice")

// legacyFields merges the query with the body.
func legacyFields(r Request, flavour Flavour) (fields, error) {
	values, err := url.ParseQuery(r.RawQuery)
	f := fields{values: values, flavour: flavour}
	if r.Method == http.MethodPost {
		err = errors.Join(err, f.readBody(r))
	}
	for _, texts := range f.values {
		if len(texts) > 1 {
			return f, errTwice
		}
	}
	return f, err
}

func (f *fields) readBody(r Request) error {
	kind, params, _ := mime.ParseMediaType(r.ContentType)
	body := bytes.TrimSpace(r.Body)
	switch {
	case kind == "multipart/form-data":
		return f.readParts(r.Body, params["boundary"])
	case kind == "application/json", kind != "application/x-www-form-urlencoded" && bytes.HasPrefix(body, []byte("{")):
		return f.readObject(body)
	}
	more, err := url.ParseQuery(string(r.Body))
	f.add(more)
	return err
}

func (f *fields) add(more url.Values) {
	for name, texts := range more {
		f.values[name] = append(f.values[name], texts...)
	}
}

// readObject reads a JSON object of plain values.
func (f *fields) readObject(body []byte) error {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // so that 0.30 and 10-digit ids stay as they were written
	if err := d.Decode(&members); err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	more := make(url.Values, len(members))
	for name, value := range members {
		switch value := value.(type) {
		case nil:
		case bool:
			more.Set(name, map[bool]string{false: "0", true: "1"}[value])
		default:
			more.Set(name, fmt.Sprint(value))
		}
	}
	f.add(more)
	return strictjson.Check(body)
}

// readParts reads a multipart form. Of its files only the one of a picture is taken.
func (f *fields) readParts(body []byte, boundary string) error {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the form: %w", err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return fmt.Errorf("reading a part of the form: %w", err)
		}
		switch name := part.FormName(); {
		case name == "file" && f.file != nil:
			return errTwice
		case name == "file":
			f.file = append([]byte{}, text...)
		default:
			f.values.Add(name, string(text))
		}
	}
}

// flag reads the protocol's booleans; some clients send JavaScript's words.
func (f fields) flag(name string, bad *string) bool {
	switch text := f.values.Get(name); {
	case text == "", text == "0", text == "false" && f.flavour == AnyClient:
		return false
	case text == "1", text == "true" && f.flavour == AnyClient:
		return true
	}
	*bad = CodeBadParams
	return false
}

// known are the fields of a submit that are read, or that change nothing.
var known = strings.Fields(`key method json header_acao soft_id pingback proxy proxytype googlekey version data-s datas sitekey
	data gt challenge api_server captcha_id pageurl invisible enterprise action userAgent min_score
	body numeric regsense min_len max_len minLen maxLen phrase calc lang textinstructions`)

// order reads a submit's parameters.
func (f fields) order() Order {
	v := f.values
	o := Order{Pingback: v.Get("pingback")}
	for name := range v {
		if text := v.Get(name); text != "" && text != "0" && !slices.Contains(known, name) {
			o.Undone = append(o.Undone, name)
		}
	}
	sorted(o.Undone)
	keyCode := f.kind(&o)
	if o.Identity.Type == "" {
		return o
	}
	id := &o.Identity
	id.Pageurl = v.Get("pageurl")
	id.Invisible, id.Enterprise = f.flag("invisible", &o.Bad), f.flag("enterprise", &o.Bad)
	id.Action, id.UserAgent = v.Get("action"), v.Get("userAgent")
	id.Proxy, id.ProxyType = captcha.Secret(v.Get("proxy")), strings.ToLower(v.Get("proxytype"))
	if score := v.Get("min_score"); score != "" {
		var err error
		if id.MinScore, err = strconv.ParseFloat(score, 64); err != nil {
			o.Bad = CodeBadParams
		}
	}
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.Bad = CodeBadParams
	}
	if o.Bad == "" {
		o.Bad = checkIdentity(*id, keyCode)
	}
	return o
}

// kind reads what depends on the method. The type stays "" for an unknown one.
// keyCode is what is said of a sitekey that is none.
func (f fields) kind(o *Order) (keyCode string) {
	v, id := f.values, &o.Identity
	switch v.Get("method") {
	case "userrecaptcha":
		id.Type, id.Sitekey, id.DataS = captcha.RecaptchaV2, v.Get("googlekey"), oneOf(&o.Bad, v.Get("data-s"), v.Get("datas"))
		switch v.Get("version") {
		case "", "v2":
		case "v3":
			id.Type = captcha.RecaptchaV3
		default:
			o.Bad = CodeBadParams
		}
		return CodeGooglekey
	case "hcaptcha":
		id.Type, id.Sitekey, id.RQData = captcha.HCaptcha, v.Get("sitekey"), v.Get("data")
	case "turnstile":
		id.Type, id.Sitekey, id.Data = captcha.Turnstile, v.Get("sitekey"), v.Get("data")
	case "geetest":
		if f.flavour != TwoCaptcha && v.Get("version") == "4" {
			id.Type, id.CaptchaID = captcha.GeeTestV4, v.Get("gt")
			break
		}
		id.Type, id.GT, id.Challenge, id.APIServer = captcha.GeeTest, v.Get("gt"), v.Get("challenge"), v.Get("api_server")
	case "geetest_v4":
		id.Type, id.CaptchaID = captcha.GeeTestV4, v.Get("captcha_id")
	case "base64":
		id.Type = captcha.Image
		f.picture(o, false)
	case "post":
		id.Type = captcha.Image
		f.picture(o, true)
	default:
		o.Bad = CodeBadParams
		if f.flavour != CaptchaAI {
			o.Bad = CodeNoMethod
		}
	}
	return CodeBadParams
}
