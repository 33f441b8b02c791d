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

// LegacyCall is a call of in.php or res.php.
type LegacyCall struct {
	Form    Form
	Key     string
	Action  Action
	Word    string // of res.php, the value of action
	IDs     []string
	Many    bool // of a Poll: the tasks were named by ids
	Priced  bool // of a Poll: get2, whose answer has the price too
	Verdict Verdict
	Order   Order // of a Submit
	// Bad is the code for a call of any action that could not be read; "" = it could.
	Bad string
}

// Form is the form of answers that a caller of in.php and res.php asks for.
type Form struct{ JSON, CORS bool }

// fields are the parameters of a call.
type fields struct {
	values url.Values
	file   []byte // the part "file" of a multipart form; nil = none
}

// ReadLegacy reads a call of in.php or res.php: a GET's query, a form, a multipart form
// or a JSON object. A bad call is returned as far as it could be read.
func ReadLegacy(r Request) LegacyCall {
	f, err := sentFields(r)
	v := f.values
	c := LegacyCall{Form: Form{JSON: v.Get("json") == "1", CORS: v.Get("header_acao") == "1"}, Key: v.Get("key")}
	if err != nil || v.Has("clientKey") { // of the other protocol
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

// sentFields merges the query with the body.
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

// readObject reads a JSON object of plain values.
func (f *fields) readObject(body []byte) error {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // keeps the spelling of 0.30 and of ids
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

// readParts reads a multipart form. Its one file is the picture.
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

// order reads a submit's parameters.
func (f fields) order() Order {
	v := f.values
	o := Order{Pingback: v.Get("pingback")}
	for name := range v {
		if text := v.Get(name); text != "" && text != "0" && !slices.Contains(knownLegacy, name) {
			o.Undone = append(o.Undone, name)
		}
	}
	slices.Sort(o.Undone)
	id, method := &o.Identity, v.Get("method")
	if id.Type = f.kind(method); id.Type == "" {
		o.Bad = CodeNoMethod
		return o
	}
	for _, field := range legacyFields(id, method, anyService) {
		if text := v.Get(field.name); text != "" && !field.read(text) {
			o.Bad = CodeBadParams
		}
	}
	if IsRecaptcha(id.Type) {
		if !slices.Contains([]string{"", "v2", "v3"}, v.Get("version")) {
			o.Bad = CodeBadParams
		}
		id.DataS = oneOf(&o.Bad, id.DataS, v.Get("datas"))
	}
	if id.Type == captcha.Image {
		f.picture(&o, method == "post")
	}
	id.ProxyType = strings.ToLower(v.Get("proxytype"))
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.Bad = CodeBadParams
	}
	if o.Bad == "" {
		o.Bad = checkIdentity(*id)
	}
	return o
}

// kind returns the type that a method asks for, "" for an unknown method.
func (f fields) kind(method string) captcha.Type {
	for _, row := range legacyMethods {
		if row.method == method && (row.version == "" || row.version == f.values.Get("version")) {
			return row.kind
		}
	}
	return ""
}
