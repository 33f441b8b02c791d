package targets

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// MostPicture is the maximum size of a picture in bytes, according to the solving services.
const MostPicture = 1 << 20

// DedupMode says which requests share one solve.
type DedupMode string

// The values of `dedup` in a request.
const (
	DedupRequest  DedupMode = "request"  // requests with the same Idempotency-Key
	DedupIdentity DedupMode = "identity" // requests with the same identity
)

// SolveRequest is the parsed body of POST /solve. Solve.Allows decides whether a caller may make
// this request. The Identity contains only fields of its type, and the hash of Image.
type SolveRequest struct {
	Identity   captcha.Identity `inline:"yes"`
	Image      []byte           `key:"image" must:"yes" as:"picture" of:"image" doc:"The picture as base64, at most 1 MiB of bytes."`
	Timeout    time.Duration    `key:"timeout" range:"1s 300s" default:"2m" doc:"How long the caller waits."`
	Dedup      DedupMode        `key:"dedup" words:"request identity" default:"request" doc:"request: only requests with the same Idempotency-Key share a solve; identity: all requests for the same identity do."`
	DedupProxy bool             `key:"dedup_proxy" default:"false" doc:"Whether the proxy counts for dedup: identity."`
}

// solveSection describes the fields of the body of POST /solve.
var solveSection = sectionOf(reflect.TypeFor[SolveRequest](), viewRequest)

// ReadSolve parses the body of POST /solve, a JSON object, by the rules for the keys of a target.
// The error has the type Problems and lists all problems in the form "field: rule and remedy". No
// problem quotes a proxy or a picture. ReadSolve does not replace references to the environment.
func ReadSolve(body []byte) (SolveRequest, error) {
	r := &reader{request: true}
	if object := r.object(body); object != nil {
		return r.solve(object, false)
	}
	return SolveRequest{}, r.problems
}

// SolveOf checks an identity by the rules of ReadSolve and returns a request for this identity. The
// error has the type Problems. The caller must already have checked the image, which is nil for
// types without a picture.
func SolveOf(id captcha.Identity, image []byte) (SolveRequest, error) {
	object := &yaml.Node{Kind: yaml.MappingNode}
	from := reflect.ValueOf(id)
	for _, f := range identityFields {
		switch v := from.FieldByIndex(f.index); {
		case v.IsZero():
		case v.Kind() == reflect.String: // fmt would redact a secret
			addField(object, f.key, textNode(v.String()))
		default:
			addField(object, f.key, bareNode(fmt.Sprint(v)))
		}
	}
	r := &reader{request: true}
	request, err := r.solve(object, id.Type == captcha.Image)
	if err == nil {
		request.Image, request.Identity.Picture.SHA256 = image, id.Picture.SHA256
	}
	return request, err
}

// solve reads the fields of a request. If the caller already has the image, hasImage is true, and
// the fields do not include the image. The error has the type Problems.
func (r *reader) solve(object *yaml.Node, hasImage bool) (request SolveRequest, err error) {
	e := solveSection.read(value{r: r, node: object}, reflect.ValueOf(&request).Elem())
	if hasImage {
		e.keys["image"] = entry{ok: true}
	}
	request.rules(e)
	if len(r.problems) > 0 {
		return SolveRequest{}, r.problems.sorted()
	}
	return request, nil
}

// maxFields is the maximum number of fields of a request, including unknown fields. It limits the
// memory for a request.
const maxFields = 64

var errManyFields = fmt.Errorf("the body must not have more than %d fields", maxFields)

// object parses a JSON object of single values into a YAML mapping without line numbers. For an
// invalid body it reports the problem and returns nil.
func (r *reader) object(body []byte) *yaml.Node {
	object := &yaml.Node{Kind: yaml.MappingNode}
	err := strictjson.Object(body, func(name string, token json.Token) error {
		if len(object.Content) == 2*maxFields {
			return errManyFields
		}
		switch token := token.(type) {
		case string:
			addField(object, name, textNode(token))
		case json.Number:
			addField(object, name, bareNode(token.String()))
		case bool:
			addField(object, name, bareNode(strconv.FormatBool(token)))
		case nil:
			addField(object, name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"})
		}
		return nil // strictjson.Object then refuses the field
	})
	whole := value{r: r}
	fault, ok := errors.AsType[*strictjson.FieldError](err)
	switch {
	case ok:
		whole.child(fault.Name).fail("%s", fault.Wrong)
	case errors.Is(err, strictjson.ErrNotObject):
		whole.fail(`%v: {"type": …}`, err)
	case err != nil:
		whole.fail("%v", err)
	default:
		return object
	}
	return nil
}

func addField(object *yaml.Node, key string, value *yaml.Node) {
	object.Content = append(object.Content, bareNode(key), value)
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: text}
}

// bareNode returns the YAML node for a number, a boolean or a key.
func bareNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

func (s *SolveRequest) rules(e entry) {
	id := &s.Identity
	e.proxyRules(entry{}, id)
	if e.hasKey("type") && !e.hasInvalid("type") {
		e.typeRules(id, solveSection.fields)
	}
	if id.Picture.MaxLength > 0 && id.Picture.MinLength > id.Picture.MaxLength {
		e.firstEntry("max_length").fail("must not be below min_length (%d of %d)", id.Picture.MaxLength, id.Picture.MinLength)
	}
	if s.DedupProxy && s.Dedup == DedupRequest && !e.hasInvalid("dedup") {
		e.firstEntry("dedup_proxy").fail("belongs to dedup: identity: remove it, or set dedup")
	}
	if s.Image != nil {
		sum := sha256.Sum256(s.Image)
		id.Picture.SHA256 = hex.EncodeToString(sum[:])
	}
}

// picture decodes the bytes of a picture from base64. No message quotes the picture.
func picture(e scalar) (any, string) {
	if strings.HasPrefix(e.text, "data:") {
		return nil, "must be base64 alone: remove all up to the first comma"
	}
	bytes, err := base64.StdEncoding.Strict().DecodeString(e.text)
	switch {
	case err != nil:
		return nil, "must be the picture's bytes as base64, with + and /, padded with ="
	case len(bytes) == 0:
		return nil, "must not be empty"
	case len(bytes) > MostPicture:
		return nil, fmt.Sprintf("must be at most %d bytes (1 MiB), not %d", MostPicture, len(bytes))
	}
	return bytes, ""
}

// otherNames maps the field names of solving services to the fields of a request.
var otherNames = map[string]string{
	"method": "type", "googlekey": "sitekey", "websitekey": "sitekey", "websiteurl": "pageurl", "url": "pageurl", "body": "image", "base64": "image", "file": "image",
	"score": "min_score", "useragent": "user_agent", "regsense": "case_sensitive", "case": "case_sensitive", "calc": "math", "lang": "language",
	"textinstructions": "instructions", "comment": "instructions", "minlen": "min_length", "maxlen": "max_length", "numeric": "charset",
}

// otherSpelling returns a suggestion if solving services use an unknown key as the name of a field.
// Otherwise it returns "".
func otherSpelling(key string) string {
	if field := otherNames[normalise(key)]; field != "" {
		return fmt.Sprintf("unknown field: did you mean %s?", field)
	}
	return ""
}

// RequestField describes a field of a request, for code that makes requests.
type RequestField struct {
	Key string
	Doc string
	// Default is a string, bool, int, float64 or time.Duration. If the field has no default,
	// Default is the zero value of the field's type.
	Default any
}

// RequestFields lists the fields of the body of POST /solve.
func RequestFields() []RequestField {
	var list []RequestField
	presets := reflect.New(reflect.TypeFor[SolveRequest]()).Elem()
	solveSection.preset(presets)
	for _, f := range solveSection.fields {
		preset := presets.FieldByIndex(f.index)
		field := RequestField{Key: f.key, Doc: f.doc, Default: preset.Interface()}
		if text, is := f.kind.(textual); is {
			field.Default = preset.Convert(reflect.TypeFor[string]()).Interface()
			if text.words != nil {
				field.Doc += " One of " + strings.Join(text.words, ", ") + "."
			}
		}
		list = append(list, field)
	}
	return list
}
