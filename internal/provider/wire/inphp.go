package wire

import (
	"bytes"
	"encoding/base64"
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

// Form says which form of response a caller of in.php or res.php requests.
type Form struct{ JSON, CORS bool }

// fields holds the parameters of a call.
type fields struct {
	values url.Values
	file   []byte // content of the part "file" of a multipart form; nil = there is no such part
}

// ReadInPHP parses a call of in.php or res.php. The parameters may be in the query, a form, a
// multipart form or a JSON object. For a malformed call, ReadInPHP sets Bad and returns the parts
// that it could parse.
func ReadInPHP(r Request) Call {
	f, err := sentFields(r)
	v := f.values
	c := Call{Form: Form{JSON: v.Get("json") == "1", CORS: v.Get("header_acao") == "1"}, Key: v.Get("key")}
	if err != nil || v.Has("clientKey") { // clientKey belongs to the protocol create_task
		c.Bad = CodeBadParams
	}
	if r.Path == "/in.php" {
		c.Action, c.Order = Submit, f.order()
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
		c.Action, c.IDs, c.Good = Report, []string{v.Get("id")}, c.Word == "reportgood"
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
		return err
	}
	more := make(url.Values, len(members))
	for name, value := range members {
		switch value := value.(type) {
		case nil:
		case bool:
			more.Set(name, map[bool]string{false: "0", true: "1"}[value])
		case map[string]any, []any:
			return errors.New("a field is an object or a list")
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
			return err
		}
		text, err := io.ReadAll(part)
		switch name := part.FormName(); {
		case err != nil:
			return err
		case name == "file" && f.file != nil:
			return errTwice
		case name == "file":
			f.file = append([]byte{}, text...)
		default:
			f.values.Add(name, string(text))
		}
	}
}

// order converts the parameters of a submission to an Order. Some parameters change neither the solution nor how the
// client gets it: they name the author of the client program or ask for a dump of the call.
func (f fields) order() Order {
	v := f.values
	o := Order{Pingback: v.Get("pingback")}
	id, method := &o.Identity, v.Get("method")
	id.Type = typeOf(func(k captcha.Kind) []captcha.Name { return k.InPHP }, v.Get("version"),
		func(name string) bool { return name == method })
	if id.Type == "" {
		o.Bad, o.BadField = CodeNoMethod, "method"
		return o
	}
	known := append(o.read(func(f captcha.Field) string { return f.InPHP }, v.Get),
		"key", "method", "json", "header_acao", "pingback", "version", "soft_id", "softId", "debug_dump")
	if id.Type == captcha.Image {
		known = append(known, "body")
	}
	for name := range v {
		if text := v.Get(name); text != "" && text != "0" && !slices.Contains(known, name) {
			o.Undone = append(o.Undone, name)
		}
	}
	slices.Sort(o.Undone)
	if IsRecaptcha(id.Type) && !slices.Contains([]string{"", "v2", "v3"}, v.Get("version")) {
		o.refuse(CodeBadParams, "version")
	}
	switch {
	case method == "post":
		o.readPicture(f.file, nil)
	case id.Type == captcha.Image:
		o.readPicture(base64.StdEncoding.DecodeString(v.Get("body")))
	}
	id.ProxyType = strings.ToLower(id.ProxyType)
	return o
}

// InPHPForm returns the form for a submission to a service's in.php, without the key. The argument
// image is nil except for pictures. The error names what the protocol cannot express.
func InPHPForm(id captcha.Identity, image []byte, service string) (url.Values, error) {
	kind := captcha.Of(id.Type)
	method := sentName(kind.InPHP, service)
	if err := checkExpressible(&id, method); err != nil {
		return nil, err
	}
	form := url.Values{}
	set := func(name, value string) {
		if value != "" {
			form.Set(name, value)
		}
	}
	set("method", method.Name)
	set("version", method.Version)
	for _, field := range kind.Fields {
		for _, name := range captcha.Sent(field.InPHP, service) {
			if field.Key != "" {
				set(name, text(id.Ptr(field.Key)))
			}
		}
	}
	set("proxytype", strings.ToUpper(id.ProxyType))
	if id.Type == captcha.Image {
		form.Set("body", base64.StdEncoding.EncodeToString(image))
	}
	return form, nil
}

// The values of the header Content-Type of responses.
const (
	PlainText = "text/plain; charset=utf-8"
	JSONText  = "application/json; charset=utf-8"
)

// Reply is the Content-Type and the body of a response with status 200.
type Reply struct {
	Type string
	Body []byte
}

// InPHPAnswer is the JSON form of a response of the protocol in_php.
type InPHPAnswer struct {
	Status    int    `json:"status"`
	Request   any    `json:"request,omitempty"`
	Useragent string `json:"useragent,omitempty"` // the spelling of 2captcha
	ErrorText string `json:"error_text,omitempty"`
}

// ThreadsAnswer is the response to threadsinfo.
type ThreadsAnswer struct {
	Status  int `json:"status"`
	Threads int `json:"threads"`
	Working int `json:"working_threads"`
	Free    int `json:"free_threads"`
}

// Say returns a response in the form that the caller requested: either v as JSON, or the plain
// text.
func (f Form) Say(text string, v any) Reply {
	if f.JSON {
		return JSON(v)
	}
	return Reply{PlainText, []byte(text)}
}

// Fail returns the response with an error code. The argument why is an explanation for people and
// may be empty.
func (f Form) Fail(code, why string) Reply {
	return f.Say(code, InPHPAnswer{Request: code, ErrorText: why})
}

// Bare returns a successful response. If it is plain text, it lacks the usual prefix "OK|".
func (f Form) Bare(text string) Reply { return f.Say(text, InPHPAnswer{Status: 1, Request: text}) }

// Accept returns the response to an accepted submission, with the id of the task.
func (f Form) Accept(id string) Reply { return f.Say("OK|"+id, InPHPAnswer{Status: 1, Request: id}) }

// JSON returns the response with v as JSON. encoding/json must be able to marshal v.
func JSON(v any) Reply { return Reply{JSONText, strictjson.Encode(v)} }
