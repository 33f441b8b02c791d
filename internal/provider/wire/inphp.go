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

// readInPHP parses a call of in.php or res.php. The parameters may be in the query, a form, a
// multipart form or a JSON object.
func readInPHP(r Request) Call {
	v, err := parameters(r)
	c := Call{InPHP: true, JSON: v.Get("json") == "1", CORS: v.Get("header_acao") == "1", Key: v.Get("key")}
	if err != nil || v.Has("clientKey") { // clientKey belongs to the protocol create_task
		c.Bad = CodeBadParams
	}
	if r.Path == "/in.php" {
		c.Action, c.Order = Submit, orderOf(v)
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

// parameters merges the parameters of the query and of the body. It returns an error if a parameter
// occurs twice.
func parameters(r Request) (url.Values, error) {
	all, err := url.ParseQuery(r.RawQuery)
	if r.Method == http.MethodPost {
		sent, failed := inBody(r)
		err = errors.Join(err, failed)
		for name, texts := range sent {
			all[name] = append(all[name], texts...)
		}
	}
	for _, texts := range all {
		if len(texts) > 1 {
			return all, errors.New("a field was given twice")
		}
	}
	return all, err
}

func inBody(r Request) (url.Values, error) {
	kind, params, _ := mime.ParseMediaType(r.ContentType)
	body := bytes.TrimSpace(r.Body)
	switch {
	case kind == "multipart/form-data":
		return partsOf(r.Body, params["boundary"])
	case kind == "application/json", kind != "application/x-www-form-urlencoded" && bytes.HasPrefix(body, []byte("{")):
		return membersOf(body)
	}
	return url.ParseQuery(string(r.Body))
}

// membersOf returns the members of a JSON object. Values must not be nested.
func membersOf(body []byte) (url.Values, error) {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // keeps ids, and numbers such as 0.30, as they were written
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	values := make(url.Values, len(members))
	for name, value := range members {
		switch value := value.(type) {
		case nil:
		case bool:
			values.Set(name, map[bool]string{false: "0", true: "1"}[value])
		case map[string]any, []any:
			return nil, errors.New("a field is an object or a list")
		default:
			values.Set(name, fmt.Sprint(value))
		}
	}
	return values, strictjson.Check(body)
}

// partsOf returns the fields and files of a multipart form.
func partsOf(body []byte, boundary string) (url.Values, error) {
	values, parts := url.Values{}, multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return values, err
		}
		values.Add(part.FormName(), string(text))
	}
}

// orderOf converts the parameters of in.php to a Submission. Some parameters change neither the solution nor how the
// client gets it: they name the author of the client program or ask for a dump of the call.
func orderOf(v url.Values) Submission {
	o := Submission{CallbackURL: v.Get("pingback")}
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
		known = append(known, "body", "file")
	}
	for name := range v {
		if text := v.Get(name); text != "" && text != "0" && !slices.Contains(known, name) {
			o.Undone = append(o.Undone, name)
		}
	}
	slices.Sort(o.Undone)
	if method == "userrecaptcha" && !slices.Contains([]string{"", "v2", "v3"}, v.Get("version")) {
		o.refuse(CodeBadParams, "version")
	}
	switch {
	case method == "post":
		o.readPicture([]byte(v.Get("file")), nil)
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
