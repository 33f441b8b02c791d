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
	"strings"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// LegacyCall is a parsed call of in.php or res.php.
type LegacyCall struct {
	Form    Form
	Key     string
	Action  Action
	Word    string // for res.php: the value of the parameter `action`
	IDs     []string
	Many    bool // for a Poll: the parameter "ids" lists several tasks
	Priced  bool // for a Poll: the action is get2, whose response includes the price
	Verdict Verdict
	Order   Order // for a Submit: the order
	// Bad is the error code for a malformed call of any action; "" = the call is well-formed.
	Bad string
}

// Form says which form of response a caller of in.php or res.php requests.
type Form struct{ JSON, CORS bool }

// fields holds the parameters of a call.
type fields struct {
	values url.Values
	file   []byte // content of the part "file" of a multipart form; nil = there is no such part
}

// ReadLegacy parses a call of in.php or res.php. The parameters may be in the query, a form, a
// multipart form or a JSON object. For a malformed call, ReadLegacy sets Bad and returns the parts
// that it could parse.
func ReadLegacy(r Request) LegacyCall {
	f, err := sentFields(r)
	v := f.values
	c := LegacyCall{Form: Form{JSON: v.Get("json") == "1", CORS: v.Get("header_acao") == "1"}, Key: v.Get("key")}
	if err != nil || v.Has("clientKey") { // clientKey belongs to the tasks protocol
		c.Bad = CodeBadParams
	}
	if r.Path == "/in.php" {
		c.Action, c.Order = Submit, f.order()
		if c.Bad != "" {
			c.Order.Bad, c.Order.BadField = c.Bad, ""
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

// sentFields merges the parameters of the query and of the body. It returns an error if a parameter
// occurs twice.
func sentFields(r Request) (fields, error) {
	values, err := url.ParseQuery(r.RawQuery)
	f := fields{values: values}
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

// readObject adds the members of a JSON object. Values must not be nested.
func (f *fields) readObject(body []byte) error {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // keeps ids, and numbers such as 0.30, as they were written
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

// readParts adds the fields of a multipart form. The only file of the form is the picture.
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

// order converts the parameters of a submission to an Order.
func (f fields) order() Order {
	v := f.values
	o := Order{Pingback: v.Get("pingback")}
	id, method := &o.Identity, v.Get("method")
	id.Type = f.typeOf(method)
	for name := range v {
		switch text := v.Get(name); {
		case text == "", text == "0":
		case isHarmlessLegacy(name, id.Type):
			o.Ignored = append(o.Ignored, name)
		case !slices.Contains(knownLegacy, name):
			o.Undone = append(o.Undone, name)
		}
	}
	slices.Sort(o.Undone)
	slices.Sort(o.Ignored)
	if id.Type == "" {
		o.Bad, o.BadField = CodeNoMethod, "method"
		return o
	}
	for _, field := range legacyFields(id, method, anyService) {
		text := v.Get(field.name)
		if text != "" && !slices.Contains(o.Ignored, field.name) && !field.read(text) {
			o.refuse(CodeBadParams, field.name)
		}
	}
	if IsRecaptcha(id.Type) {
		if !slices.Contains([]string{"", "v2", "v3"}, v.Get("version")) {
			o.refuse(CodeBadParams, "version")
		}
		id.DataS = oneOf(&o.Bad, id.DataS, v.Get("datas"))
	}
	if id.Type == captcha.Image {
		f.picture(&o, method == "post")
	}
	id.ProxyType = strings.ToLower(v.Get("proxytype"))
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.refuse(CodeBadParams, "pingback")
	}
	o.refuse(checkIdentity(*id))
	return o
}

// typeOf returns the type of CAPTCHA for a value of the parameter `method`, or "" for an unknown
// value.
func (f fields) typeOf(method string) captcha.Type {
	for _, row := range legacyMethods {
		if row.method == method && (row.version == "" || row.version == f.values.Get("version")) {
			return row.kind
		}
	}
	return ""
}
