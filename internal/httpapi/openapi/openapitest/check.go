package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const problemJSON = "application/problem+json"

var forPeople = regexp.MustCompile(`^/(|status|status/act|status\.css|status\.svg|htmx\.js|debug/pprof/.*)$`)

// IsForPeople reports whether the description omits a path, because no program uses it: the status
// page, its files and profiles.
func IsForPeople(path string) bool { return forPeople.MatchString(path) }

// check checks a response: its status, headers and media type, the body if it is JSON, and the request if poold
// accepted it.
func (d *Description) check(r *http.Response, body []byte) error {
	if IsForPeople(r.Request.URL.Path) {
		return nil
	}
	name, found, err := d.find(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := d.checkResponse(found, r, body); err != nil {
		return fmt.Errorf("%s: status %d: %w", name, r.StatusCode, err)
	}
	return nil
}

func (d *Description) checkResponse(found node, r *http.Response, body []byte) error {
	if err := d.checkHeaders(d.child(found, "headers"), r.Header); err != nil {
		return err
	}
	if r.Header.Get("X-Request-Id") == "" { // for all responses, in the description of the document
		return errors.New("the header X-Request-Id is missing")
	}
	given, content := r.Header.Get("Content-Type"), d.child(found, "content")
	mediaType, _, err := mime.ParseMediaType(given)
	media := d.child(content, mediaType)
	switch {
	case content.value == nil && (given != "" || r.ContentLength > 0):
		return fmt.Errorf("an undeclared body of type %q", given)
	case content.value == nil:
		return nil
	case err != nil || media.value == nil:
		return fmt.Errorf("the media type %q is not declared", given)
	case r.Request.Method == http.MethodHead || !isJSON(r):
		return nil
	}
	return d.checkJSON(media, body)
}

// isJSON reports whether a check needs the body of a response.
func isJSON(r *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return mediaType == "application/json" || mediaType == problemJSON
}

// find returns the description of a response, and the name of the operation for errors.
func (d *Description) find(r *http.Response) (name string, _ node, err error) {
	method, escaped := r.Request.Method, r.Request.URL.EscapedPath()
	if method == "" {
		method = http.MethodGet
	}
	template := d.match(escaped)
	name = method + " " + escaped
	o := d.at("paths", template, strings.ToLower(method))
	switch {
	case template == "" && r.StatusCode != http.StatusNotFound:
		return name, node{}, fmt.Errorf("status %d of a path that is not declared", r.StatusCode)
	case template == "":
		return name, d.at("components", "responses", "UnknownPath"), nil
	case o.value == nil && r.StatusCode != http.StatusMethodNotAllowed:
		return name, node{}, fmt.Errorf("status %d of a method that %s does not declare", r.StatusCode, template)
	case o.value == nil:
		return name, d.at("components", "responses", "WrongMethod"), nil
	}
	name = method + " " + template
	found := d.below(o, "responses", fmt.Sprint(r.StatusCode))
	if found.value == nil {
		return name, node{}, fmt.Errorf("status %d is not declared", r.StatusCode)
	}
	if r.StatusCode < http.StatusBadRequest {
		err = d.checkRequest(d.below(o, "requestBody", "content"), r.Request)
	}
	return name, found, err
}

// match returns the path of the description that fits a request's path; "" = none. A literal segment of a path has
// precedence over a parameter.
func (d *Description) match(escaped string) (best string) {
	all := names(d.at("paths"))
	for _, template := range all {
		isOpen := !slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, template+"/") })
		if fits(template, isOpen, escaped) && (best == "" || strings.Count(template, "{") < strings.Count(best, "{")) {
			best = template
		}
	}
	return best
}

// fits reports whether a request's path has the form of a path of the description. The last parameter must not be
// empty; the others may be. If the path is open, its last parameter is the rest of the request's path.
func fits(template string, isOpen bool, escaped string) bool {
	want, most := strings.Split(template, "/"), -1
	last := strings.HasSuffix(template, "}")
	if last && isOpen {
		most = len(want)
	}
	segments := strings.SplitN(escaped, "/", most)
	return (!last || segments[len(segments)-1] != "") && slices.EqualFunc(want, segments, func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{")
	})
}

// checkRequest checks the body of a request that was accepted. It does not check a body that can be
// read only once, and the body of a GET, which OpenAPI cannot describe.
func (d *Description) checkRequest(content node, r *http.Request) error {
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
	declared, other := d.child(content, mediaType), d.child(content, "*/*")
	switch {
	case declared.value == nil && other.value != nil:
		return nil
	case declared.value == nil:
		return fmt.Errorf("poold accepted a body of the undeclared media type %q", given)
	case mediaType != "application/json":
		return nil
	}
	if err := d.checkJSON(declared, body); err != nil {
		return fmt.Errorf("the accepted body: %w", err)
	}
	return nil
}

func (d *Description) checkHeaders(declared node, given http.Header) error {
	for _, name := range names(declared) {
		values := given.Values(name)
		if len(values) == 0 && d.below(declared, name, "required").value == true {
			return fmt.Errorf("the header %s is missing", name)
		}
		for _, value := range values {
			var read any = value
			if d.below(declared, name, "schema", "type").value == "integer" {
				read = json.Number(value)
			}
			if err := d.validate(d.child(declared, name), read); err != nil {
				return fmt.Errorf("header %s: %q: %w", name, value, err)
			}
		}
	}
	return nil
}

func (d *Description) checkJSON(media node, body []byte) error {
	if d.child(media, "schema").value == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = d.validate(media, value)
	}
	if err != nil {
		return fmt.Errorf("%w (false schema: openapi.yaml lacks the member) in %.1000s", err, body)
	}
	return nil
}
