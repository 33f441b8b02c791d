package openapitest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// documentURL is the address under which the description is registered with the compiler of schemas.
const documentURL = "https://poold.example.com/openapi.json"

// object is a JSON object of the description.
type object = map[string]any

// Description is a parsed description of an API. It is safe for concurrent use.
type Description struct {
	root any

	mu       sync.Mutex
	compiler *jsonschema.Compiler // keeps compiled schemas
}

// node is a value of the description and the JSON pointer to the value.
type node struct {
	value   any
	pointer string
}

// Load reads a description in YAML.
func Load(document []byte) (*Description, error) {
	d := &Description{compiler: jsonschema.NewCompiler()}
	if err := yaml.Unmarshal(document, &d.root); err != nil {
		return nil, err
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(documentURL, d.root)
}

// validate checks a value against the schema of a header or a media type.
func (d *Description) validate(of node, value any) error {
	at := url.URL{Fragment: d.child(of, "schema").pointer}
	d.mu.Lock()
	compiled, err := d.compiler.Compile(documentURL + at.String())
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

// at returns the value at a path of members.
func (d *Description) at(members ...string) node { return d.below(node{d.root, ""}, members...) }

func (d *Description) below(n node, members ...string) node {
	for _, member := range members {
		n = d.child(n, member)
	}
	return n
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
	for _, template := range names(d.at("paths")) {
		for _, method := range names(d.at("paths", template)) {
			if method != "parameters" {
				list = append(list, strings.ToUpper(method)+" "+template)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Codes returns the codes of problems by status, over all responses. For a problem that lists no
// codes, the result is an error.
func (d *Description) Codes() (map[int][]string, error) {
	responses := map[string][]node{
		fmt.Sprint(http.StatusNotFound):         {d.at("components", "responses", "UnknownPath")},
		fmt.Sprint(http.StatusMethodNotAllowed): {d.at("components", "responses", "WrongMethod")},
	}
	for _, operation := range d.Operations() {
		method, template, _ := strings.Cut(operation, " ")
		list := d.at("paths", template, strings.ToLower(method), "responses")
		for _, status := range names(list) {
			responses[status] = append(responses[status], d.child(list, status))
		}
	}
	codes := map[int][]string{}
	for status, all := range responses {
		number, _ := strconv.Atoi(status)
		for _, response := range all {
			problem := d.below(response, "content", problemJSON)
			found := d.codes(d.child(problem, "schema"))
			if problem.value != nil && len(found) == 0 {
				return nil, fmt.Errorf("%s lists no codes", problem.pointer)
			}
			codes[number] = append(codes[number], found...)
		}
		slices.Sort(codes[number])
		codes[number] = slices.Compact(codes[number])
	}
	return codes, nil
}

// codes returns the values that the schema of a problem allows for the code.
func (d *Description) codes(schema node) (codes []string) {
	list, _ := d.below(schema, "properties", "code", "enum").value.([]any)
	for _, code := range list {
		codes = append(codes, fmt.Sprint(code))
	}
	parts, _ := d.child(schema, "allOf").value.([]any)
	for _, part := range parts {
		codes = append(codes, d.codes(d.follow(node{part, ""}))...)
	}
	return codes
}
