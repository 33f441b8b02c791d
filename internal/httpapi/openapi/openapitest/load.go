package openapitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// documentURL is the address by which the compiler of schemas knows the description.
const documentURL = "https://poold.example.com/openapi.json"

// object is a JSON object of the description.
type object = map[string]any

// Description is a parsed description of an API. It is safe for concurrent use.
type Description struct {
	root     any
	compiler *jsonschema.Compiler
	paths    []*path

	// These responses are not part of an operation.
	unknownPath, wrongMethod *response
}

type path struct {
	template   string // as in the description: /pool/{target}
	segments   []string
	isOpen     bool                  // the last parameter is the rest of the path
	operations map[string]*operation // by method
}

type operation struct {
	name      string // method and template
	body      map[string]*jsonschema.Schema
	responses map[int]*response
}

type response struct {
	headers map[string]header
	media   map[string]*media
}

type header struct {
	required bool
	schema   *jsonschema.Schema
}

type media struct {
	schema *jsonschema.Schema // nil = any content
	codes  []string           // the codes of a problem
}

// node is a value of the description and the JSON pointer to the value.
type node struct {
	value   any
	pointer string
}

// Load reads a description in YAML.
func Load(document []byte) (*Description, error) {
	var plain any
	if err := yaml.Unmarshal(document, &plain); err != nil {
		return nil, err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	root, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	d := &Description{root: root, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, root); err != nil {
		return nil, err
	}
	return d, d.load()
}

func (d *Description) load() (err error) {
	responses := d.child(d.child(node{d.root, ""}, "components"), "responses")
	if d.unknownPath, err = d.response(d.child(responses, "UnknownPath")); err != nil {
		return err
	}
	if d.wrongMethod, err = d.response(d.child(responses, "WrongMethod")); err != nil {
		return err
	}
	paths := d.child(node{d.root, ""}, "paths")
	for _, template := range names(paths) {
		p := &path{template: template, segments: strings.Split(template, "/"), operations: map[string]*operation{}}
		longer := func(other string) bool { return strings.HasPrefix(other, template+"/") }
		p.isOpen = strings.HasSuffix(template, "}") && !slices.ContainsFunc(names(paths), longer)
		item := d.child(paths, template)
		for _, key := range names(item) {
			method := strings.ToUpper(key)
			if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}, method) {
				continue // the parameters of the path
			}
			if p.operations[method], err = d.operation(method+" "+template, d.child(item, key)); err != nil {
				return fmt.Errorf("%s %s: %w", method, template, err)
			}
		}
		d.paths = append(d.paths, p)
	}
	return nil
}

func (d *Description) operation(name string, n node) (*operation, error) {
	o := &operation{name: name, responses: map[int]*response{}}
	content := d.child(d.child(n, "requestBody"), "content")
	for _, kind := range names(content) {
		if o.body == nil {
			o.body = map[string]*jsonschema.Schema{}
		}
		var err error
		if o.body[kind], err = d.schema(d.child(content, kind), "schema"); err != nil {
			return nil, err
		}
	}
	list := d.child(n, "responses")
	for _, status := range names(list) {
		number, err := strconv.Atoi(status)
		if err != nil {
			return nil, fmt.Errorf("the status %q is not a number", status)
		}
		if o.responses[number], err = d.response(d.child(list, status)); err != nil {
			return nil, fmt.Errorf("status %s: %w", status, err)
		}
	}
	return o, nil
}

func (d *Description) response(n node) (*response, error) {
	if n.value == nil {
		return nil, fmt.Errorf("no response at %s", n.pointer)
	}
	r := &response{headers: map[string]header{}, media: map[string]*media{}}
	headers, content := d.child(n, "headers"), d.child(n, "content")
	for _, name := range names(headers) {
		one := d.child(headers, name)
		schema, err := d.schema(one, "schema")
		if err != nil {
			return nil, err
		}
		required, _ := d.child(one, "required").value.(bool)
		r.headers[name] = header{required: required, schema: schema}
	}
	for _, kind := range names(content) {
		var err error
		if r.media[kind], err = d.media(d.child(content, kind)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (d *Description) media(n node) (m *media, err error) {
	m = &media{}
	if m.schema, err = d.schema(n, "schema"); err != nil {
		return nil, err
	}
	m.codes = d.codes(d.child(n, "schema"))
	return m, nil
}

// codes returns the values that the schema of a problem allows for the code.
func (d *Description) codes(schema node) (codes []string) {
	list, _ := d.child(d.child(d.child(schema, "properties"), "code"), "enum").value.([]any)
	for _, code := range list {
		codes = append(codes, fmt.Sprint(code))
	}
	parts, _ := d.child(schema, "allOf").value.([]any)
	for i := range parts {
		codes = append(codes, d.codes(d.follow(node{parts[i], schema.pointer + "/allOf/" + strconv.Itoa(i)}))...)
	}
	return codes
}

// schema compiles the schema that a member of an object contains; nil = there is no such member.
func (d *Description) schema(n node, member string) (*jsonschema.Schema, error) {
	schema := d.child(n, member)
	if schema.value == nil {
		return nil, nil
	}
	at := url.URL{Fragment: schema.pointer}
	return d.compiler.Compile(documentURL + at.String())
}

// child returns a member of an object, after following its reference. The value of a missing member
// is nil.
func (d *Description) child(n node, member string) node {
	members, _ := n.value.(object)
	return d.follow(node{members[member], n.pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(member)})
}

// follow returns the value that a reference names.
func (d *Description) follow(n node) node {
	members, _ := n.value.(object)
	reference, is := members["$ref"].(string)
	if !is {
		return n
	}
	target := node{d.root, ""}
	for part := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		target = d.child(target, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return target
}

// names returns the names of an object's members, sorted.
func names(n node) []string {
	members, _ := n.value.(object)
	return slices.Sorted(maps.Keys(members))
}

// Operations returns the method and the path of each operation, such as "GET /pool/{target}",
// sorted.
func (d *Description) Operations() (list []string) {
	for _, p := range d.paths {
		for _, o := range p.operations {
			list = append(list, o.name)
		}
	}
	slices.Sort(list)
	return list
}

// Codes returns the codes of problems by status, over all responses. For a problem that lists no
// codes, the result is an error.
func (d *Description) Codes() (map[int][]string, error) {
	codes := map[int][]string{}
	add := func(status int, r *response) error {
		problem, is := r.media[problemJSON]
		switch {
		case !is:
			return nil
		case len(problem.codes) == 0:
			return fmt.Errorf("status %d: the problem lists no codes", status)
		}
		codes[status] = append(codes[status], problem.codes...)
		slices.Sort(codes[status])
		codes[status] = slices.Compact(codes[status])
		return nil
	}
	if err := add(http.StatusNotFound, d.unknownPath); err != nil {
		return nil, err
	}
	if err := add(http.StatusMethodNotAllowed, d.wrongMethod); err != nil {
		return nil, err
	}
	for _, p := range d.paths {
		for _, o := range p.operations {
			for status, r := range o.responses {
				if err := add(status, r); err != nil {
					return nil, fmt.Errorf("%s: %w", o.name, err)
				}
			}
		}
	}
	return codes, nil
}
