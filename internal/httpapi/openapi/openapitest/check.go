package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const problemJSON = "application/problem+json"

// Exchange is the description of one response. Use Description.Begin.
type Exchange struct {
	name   string // of the operation, or the request
	status int
	media  *media // nil = the response has no body
	isJSON bool
}

// Begin finds the description of a response, and checks the response's status, headers and media
// type. The field Request of the response must be set. The body is not read; if Begin succeeds,
// pass the body to the methods of the Exchange.
func (d *Description) Begin(r *http.Response) (*Exchange, error) {
	name, found, err := d.find(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x := &Exchange{name: name, status: r.StatusCode}
	if err := found.checkHeaders(r.Header); err != nil {
		return nil, x.wrong(err)
	}
	if r.Header.Get("X-Request-Id") == "" { // for all responses, in the description of the document
		return nil, x.wrong(errors.New("the header X-Request-Id is missing"))
	}
	given := r.Header.Get("Content-Type")
	if len(found.media) == 0 {
		if given != "" || r.ContentLength > 0 {
			return nil, x.wrong(fmt.Errorf("an undeclared body of type %q", given))
		}
		return x, nil
	}
	mediaType, _, err := mime.ParseMediaType(given)
	if x.media = found.media[mediaType]; err != nil || x.media == nil {
		return nil, x.wrong(fmt.Errorf("the media type %q is not declared", given))
	}
	x.isJSON = mediaType == "application/json" || mediaType == problemJSON
	if r.Request.Method == http.MethodHead {
		x.media = nil
	}
	return x, nil
}

func (x *Exchange) wrong(err error) error {
	return fmt.Errorf("%s: status %d: %w", x.name, x.status, err)
}

// find returns the description of a response, and the name of the operation for errors.
func (d *Description) find(r *http.Response) (name string, _ *response, err error) {
	method, escaped := r.Request.Method, r.Request.URL.EscapedPath()
	if method == "" {
		method = http.MethodGet
	}
	p := d.match(escaped)
	name = method + " " + escaped
	switch {
	case p == nil && r.StatusCode != http.StatusNotFound:
		return name, nil, fmt.Errorf("status %d of a path that is not declared", r.StatusCode)
	case p == nil:
		return name, d.unknownPath, nil
	}
	o := p.operations[method]
	switch {
	case o == nil && r.StatusCode != http.StatusMethodNotAllowed:
		return name, nil, fmt.Errorf("status %d of a method that %s does not declare", r.StatusCode, p.template)
	case o == nil:
		return name, d.wrongMethod, nil
	}
	found := o.responses[r.StatusCode]
	if found == nil {
		return o.name, nil, fmt.Errorf("status %d is not declared", r.StatusCode)
	}
	if r.StatusCode < http.StatusBadRequest {
		err = o.checkRequest(r.Request)
	}
	return o.name, found, err
}

// match returns the path of the description that fits a request's path. Literal segments have
// precedence over parameters.
func (d *Description) match(escaped string) (best *path) {
	for _, p := range d.paths {
		if p.fits(escaped) && (best == nil || strings.Count(p.template, "{") < strings.Count(best.template, "{")) {
			best = p
		}
	}
	return best
}

// fits reports whether a request's path has the form of the path p. Only the last parameter must
// not be empty.
func (p *path) fits(escaped string) bool {
	most := -1
	if p.isOpen {
		most = len(p.segments)
	}
	segments := strings.SplitN(escaped, "/", most)
	if strings.HasSuffix(p.template, "}") && segments[len(segments)-1] == "" {
		return false
	}
	return slices.EqualFunc(p.segments, segments, func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{")
	})
}

// checkRequest checks the body of a request that was accepted. It does not check a body that can be
// read only once, and the body of a GET, which OpenAPI cannot describe.
func (o *operation) checkRequest(r *http.Request) error {
	if r.GetBody == nil || r.Method == http.MethodGet {
		return nil
	}
	reader, err := r.GetBody()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	body, err := io.ReadAll(reader)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	given := r.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(given)
	schema, declared := o.body[mediaType]
	if !declared {
		schema, declared = o.body["*/*"]
	}
	switch {
	case !declared:
		return fmt.Errorf("poold accepted a body of the undeclared media type %q", given)
	case mediaType != "application/json" || schema == nil:
		return nil
	}
	if err := checkJSON(schema, body); err != nil {
		return fmt.Errorf("the accepted body: %w", err)
	}
	return nil
}

func (r *response) checkHeaders(given http.Header) error {
	for name, h := range r.headers {
		values := given.Values(name)
		if len(values) == 0 && h.required {
			return fmt.Errorf("the header %s is missing", name)
		}
		for _, value := range values {
			if err := h.schema.Validate(value); err != nil {
				return fmt.Errorf("header %s: %q: %w", name, value, short(err))
			}
		}
	}
	return nil
}

// WantsBody reports whether the method End needs the body.
func (x *Exchange) WantsBody() bool { return x.media != nil && x.isJSON }

// End checks a complete body.
func (x *Exchange) End(body []byte) error {
	switch {
	case x.media == nil && len(body) > 0:
		return x.wrong(errors.New("an undeclared body"))
	case !x.WantsBody() || x.media.schema == nil:
		return nil
	}
	if err := checkJSON(x.media.schema, body); err != nil {
		return x.wrong(err)
	}
	return nil
}

func checkJSON(schema *jsonschema.Schema, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %.200s", err, body)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w in %.1000s", short(err), body)
	}
	return nil
}

// short reduces an error of a schema to its innermost causes. If a part of a schema fails, the
// compiler also reports the fields of this part as undeclared; short leaves out these reports.
func short(err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var causes, undeclared []string
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		at := "/" + strings.Join(e.InstanceLocation, "/")
		switch e.ErrorKind.(type) {
		case *kind.FalseSchema:
			undeclared = append(undeclared, at+": not declared")
		default:
			if len(e.Causes) == 0 {
				causes = append(causes, at+": "+e.ErrorKind.LocalizedString(english))
			}
		}
		for _, cause := range e.Causes {
			collect(cause)
		}
	}
	collect(invalid)
	if len(causes) == 0 {
		causes = undeclared
	}
	slices.Sort(causes)
	return errors.New(strings.Join(slices.Compact(causes), "; "))
}

// english prints the causes.
var english = message.NewPrinter(language.English)
