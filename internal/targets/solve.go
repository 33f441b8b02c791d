package targets

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // solve.schema.json
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// Allows returns nil if callers may request an identity without a target, and otherwise an error
// with the reason. A nil Solve (the file lacks the section) allows no identity. The page of the
// identity is only a claim of the caller: poold cannot check on which page the token is used.
func (s *Solve) Allows(id captcha.Identity) error {
	if s == nil {
		return errors.New("type: only the identities of targets can be requested: " +
			"add the section solve, with pages and budget, to the configuration")
	}
	isPicture := id.Type == captcha.Image
	asked, rule := splitPage(id.Pageurl, false)
	knownPage := slices.ContainsFunc(s.Pages, func(p page) bool { return p.matches(asked) })
	knownSite := len(s.Sitekeys) == 0 ||
		slices.ContainsFunc(s.Sitekeys, func(p string) bool { return matchStars(p, ".*", id.Site()) })
	rule = first(
		check{isPicture && !s.Images, "image: pictures cannot be requested: set solve.images to true"},
		check{isPicture, ""},
		check{rule != "", "pageurl: " + rule + ", or solve.pages cannot be compared with it"},
		check{!knownPage, "pageurl: " + otherPage},
		check{!knownSite, captcha.Of(id.Type).Fields[0].Key +
			": matches no pattern of solve.sitekeys: request one that matches, or add a pattern"},
	)
	if rule != "" {
		return errors.New(rule)
	}
	return nil
}

const otherPage = "matches no pattern of solve.pages: request a page that matches, or add a pattern"

func (s *Solve) validate(at *setting) {
	at.require("pages", "budget")
	at.rule(s.Budget != (Budget{}) || !at.has("budget"), "budget",
		"needs per_hour or per_day above 0, money_per_day or money_per_month: "+
			"callers decide what is bought, so a budget must limit how much")
}

// page is a parsed address of a page, or a pattern of such addresses. The scheme, host, port and
// path of an address are each compared with the same part of a pattern. Queries are not compared.
// The only wildcard is the star. In the host a star matches no dot. In the path a star also matches
// slashes. As the port a star matches any port.
//
// Different programs parse unusual addresses in different ways. An address is accepted only if all
// programs find the same host and the same path in it.
type page struct {
	scheme string // http or https
	host   string // lower-case name, or IP address in canonical form; IPv6 in brackets
	port   string // never ""; "*" = any port
	path   string // unchanged path of the address, without the query
}

// decode reads a pattern of addresses of pages. No message quotes it.
func (p *page) decode(at *setting) {
	if !at.text() {
		return
	}
	parsed, rule := splitPage(at.value, true)
	*p = parsed
	if at.obey(check{at.value == "", "must not be empty"}, check{rule != "", rule}) && openHost.MatchString(p.host) {
		at.warn("a wildcard in the last two labels of the host also matches hosts of other owners: name the domain")
	}
}

var (
	pageForm = regexp.MustCompile(
		`^(?i:(https?)://([a-z0-9_.*-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}|\*))?)(?:(/[!"$->A-[\]-~]*)(\?[!"$-?A-[\]-~]*)?)?$`)
	hostName = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)
	// Some programs take a host whose last label is a number for an IP address, others for a name.
	likeIP  = regexp.MustCompile(`(^|\.)([0-9]+|0x[^.]*)$`)
	escapes = regexp.MustCompile(`%.{0,2}`)
	// A wildcard in one of the last two labels matches hosts that belong to different owners.
	openHost = regexp.MustCompile(`\*[^.]*\.[^.]*$|\.[^.]*\*[^.]*$`)
	// Some servers ignore the text after a semicolon in a segment.
	steps = regexp.MustCompile(`/\.\.?([/;]|$)`)
)

// splitPage parses an address or a pattern. It returns the first rule that the address violates,
// which does not quote the address.
func splitPage(address string, pattern bool) (p page, rule string) {
	m := pageForm.FindStringSubmatch(address)
	if m == nil {
		return p, "must be an address such as https://HOST/PATH in ASCII, without a user, @, # and backslash: " +
			"write other characters as %XX, and a host of another script as xn--…"
	}
	scheme, query := strings.ToLower(m[1]), m[5]
	p = page{scheme, strings.ToLower(m[2]), cmp.Or(m[3], map[string]string{"http": "80", "https": "443"}[scheme]),
		cmp.Or(m[4], "/")}
	name := p.host
	if pattern {
		name = strings.ReplaceAll(name, "*", "-")
	}
	goodHost := hostName.MatchString(name) && !likeIP.MatchString(p.host)
	inner, bracket := strings.CutPrefix(strings.TrimSuffix(p.host, "]"), "[")
	if ip, err := netip.ParseAddr(inner); err == nil && ip.Is6() == bracket {
		goodHost = true
		if bracket {
			p.host = "[" + ip.String() + "]"
		}
	}
	n, _ := strconv.Atoi(p.port)
	return p, first(
		check{(n < 1 || n > 65535 || strconv.Itoa(n) != p.port) && (!pattern || p.port != "*"),
			"the port must be a number from 1 to 65535"},
		check{!goodHost, "the host must be names of a-z, 0-9, - and _ with single dots between them, " +
			"or a whole IP address without wildcards"},
		check{strings.Contains(p.host, "*") && !strings.ContainsAny(p.host, "abcdefghijklmnopqrstuvwxyz"),
			"the host must not consist of wildcards only: name the domain, as in https://*.example.com/*"},
		check{pattern && query != "", "must not hold a ?: queries are not compared"},
		check{pattern && m[4] == "", "needs a path: /* is every page of the host"},
		check{slices.ContainsFunc(escapes.FindAllString(p.path, -1), unsafeEscape),
			"the path must not hold encoded dots, slashes, percent signs and control characters, " +
				"and a % needs two hex digits behind it"},
		check{steps.MatchString(p.path), "the path must not hold the steps . and .."},
	)
}

// unsafeEscape reports whether an escape in a path may stand for a character with a special meaning.
func unsafeEscape(escape string) bool {
	code, err := strconv.ParseUint(escape[1:], 16, 8)
	return err != nil || len(escape) < 3 || code < ' ' || code == 0x7f || strings.ContainsRune(`./\%`, rune(code))
}

// matches reports whether the address of a page matches the pattern p.
func (p page) matches(other page) bool {
	return p.scheme == other.scheme && (p.port == "*" || p.port == other.port) &&
		matchStars(p.host, "[^.]*", other.host) && matchStars(p.path, ".*", other.path)
}

// matchStars reports whether a text matches a pattern. A star matches texts that match the expression star.
func matchStars(pattern, star, text string) bool {
	stars := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, star)
	return regexp.MustCompile(`^` + stars + `$`).MatchString(text)
}

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
	captcha.Identity `yaml:",inline"`
	// The picture as base64, at most 1 MiB of bytes.
	Image picture `yaml:"image"`
	// How long the caller waits. 1s to 300s. Default: 2m.
	Timeout time.Duration `yaml:"timeout" range:"1s to 5m"`
	// request: only requests with the same Idempotency-Key share a solve; identity: all requests for the same
	// identity do. One of request, identity. Default: request.
	Dedup DedupMode `yaml:"dedup" oneof:"request identity"`
	// Whether the proxy counts for dedup: identity.
	DedupProxy bool `yaml:"dedup_proxy"`
}

// ReadSolve parses the body of POST /solve, a JSON object, by the rules for the keys of a target.
// The error has the type Problems and lists all problems in the form "field: rule and remedy". No
// problem quotes a proxy or a picture. ReadSolve does not replace references to the environment.
func ReadSolve(body []byte) (SolveRequest, error) {
	return (&reader{request: true}).solve(body)
}

// SolveOf checks an identity by the rules of ReadSolve and returns a request for this identity. The
// error has the type Problems. The caller must already have checked the image, which is nil for
// types without a picture.
func SolveOf(id captcha.Identity, picture []byte) (SolveRequest, error) {
	r := &reader{request: true, hasImage: id.Type == captcha.Image}
	fields, keys := map[string]any{}, keysOf(reflect.TypeFor[captcha.Identity]())
	for i, key := range keys.names {
		v := reflect.ValueOf(id).FieldByIndex(keys.fields[i].Index)
		if fields[key] = v.Interface(); v.Kind() == reflect.String {
			fields[key] = v.String() // the encoder would redact a secret
		}
		if v.IsZero() {
			delete(fields, key)
		}
	}
	request, err := r.solve(strictjson.Encode(fields))
	if err == nil {
		request.Image, request.Identity.Picture.SHA256 = picture, id.Picture.SHA256
	}
	return request, err
}

// solve parses the fields of a request. The error has the type Problems.
func (r *reader) solve(body []byte) (request SolveRequest, err error) {
	at := &setting{r: r, node: &yaml.Node{Kind: yaml.MappingNode}}
	if at.readObject(body); !at.bad {
		at.decode(reflect.ValueOf(&request).Elem())
	}
	if at.bad {
		return SolveRequest{}, r.problems.sorted()
	}
	return request, nil
}

// maxFields is the maximum number of fields of a request, including unknown fields. It limits the
// memory for a request.
const maxFields = 64

// readObject parses a JSON object of single values into a YAML mapping without line numbers, or
// reports why the body is invalid.
func (at *setting) readObject(body []byte) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if start, err := d.Token(); !at.obey(
		check{err == nil && start != json.Delim('{'), `the body must be one JSON object: {"type": …}`}) {
		return
	}
	for d.More() {
		name, err := d.Token()
		token, broken := d.Token()
		if err != nil || broken != nil {
			break
		}
		key, _ := name.(string)
		value := &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}
		switch token.(type) {
		case string:
			value.Style = yaml.DoubleQuotedStyle
		case nil:
			value.Tag = "!!null"
		case json.Delim:
			at.child(key).fail("must be a single value, not an object or a list")
			return
		}
		if !at.obey(check{len(at.node.Content) == 2*maxFields,
			fmt.Sprintf("the body must not have more than %d fields", maxFields)}) {
			return
		}
		at.node.Content = append(at.node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key, Column: len(at.node.Content)},
			value)
	}
	if err := strictjson.Check(body); err != nil { // last, because the number of fields is limited then
		at.fail("%v", err)
	}
}

func (s *SolveRequest) preset() { *s = SolveRequest{Timeout: 2 * time.Minute, Dedup: DedupRequest} }

func (s *SolveRequest) validate(at *setting) {
	at.require("type")
	at.at("type").oneOf(WordsOf(captcha.SolvableTypes()))
	id := &s.Identity
	checkIdentity(at, id)
	if at.has("type") && at.ok("type") {
		checkType(at, id.Type)
	}
	least, most := id.Picture.MinLength, id.Picture.MaxLength
	at.rule(most == 0 || least <= most || !at.ok("min_length"), "max_length", "must not be below min_length (%d of %d)",
		most, least)
	at.rule(!s.DedupProxy || s.Dedup == DedupIdentity || !at.ok("dedup"), "dedup_proxy",
		"belongs to dedup: identity: remove it, or set dedup")
	if s.Image != nil {
		sum := sha256.Sum256(s.Image)
		id.Picture.SHA256 = hex.EncodeToString(sum[:])
	}
}

// picture has the bytes of a picture.
type picture []byte

// decode decodes base64. No message quotes the picture.
func (p *picture) decode(at *setting) {
	if !at.text() {
		return
	}
	data, err := base64.StdEncoding.Strict().DecodeString(at.value)
	if at.obey(
		check{strings.HasPrefix(at.value, "data:"), "must be base64 alone: remove all up to the first comma"},
		check{err != nil, "must be the picture's bytes as base64, with + and /, padded with ="},
		check{len(data) == 0, "must not be empty"},
		check{len(data) > captcha.MostPicture,
			fmt.Sprintf("must be at most %d bytes (1 MiB), not %d", captcha.MostPicture, len(data))},
	) {
		*p = data
	}
}

// RequestField describes a field of a request, for code that makes requests.
type RequestField struct {
	Key, Doc string
	Type     reflect.Type
}

//go:embed solve.schema.json
var solveSchema []byte

// RequestFields lists the fields of the body of POST /solve.
func RequestFields() (list []RequestField) {
	var described struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(solveSchema, &described); err != nil {
		panic(err) // the file is part of the program
	}
	keys := keysOf(reflect.TypeFor[SolveRequest]())
	for i, key := range keys.names {
		list = append(list, RequestField{key, described.Properties[key].Description, keys.fields[i].Type})
	}
	return list
}
