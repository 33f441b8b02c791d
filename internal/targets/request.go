package targets

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"poold/internal/captcha"
)

const (
	// longestSolve is how long a caller of POST /solve can wait.
	longestSolve = 300 * time.Second

	// MostPicture is how many bytes a picture can have, as the services say.
	MostPicture = 1 << 20

	// mostLetters is how long the text of a picture can be.
	mostLetters = 100
)

// DedupMode says with whom a request shares its solve.
type DedupMode string

// The values of `dedup` in a request.
const (
	DedupRequest  DedupMode = "request"  // with the same Idempotency-Key alone
	DedupIdentity DedupMode = "identity" // with all that ask for the same
)

// SolveRequest is the body of POST /solve. Solve.Allows knows whether it may be asked
// for.
type SolveRequest struct {
	Identity   captcha.Identity // holds only fields that its type knows
	Image      []byte           // the picture, of which Identity has the hash; nil for other types
	Timeout    time.Duration    // how long the caller waits; 1s to 300s, default 120s
	Dedup      DedupMode        // default request
	DedupProxy bool             // the proxy counts for Dedup; default false
}

// ReadSolve reads the body of POST /solve, a JSON object, by the rules by which a
// target is read. The error is Problems: all that is wrong, each as "field: rule and
// remedy". It quotes neither proxies nor pictures. Nothing of the environment is read.
func ReadSolve(body []byte) (SolveRequest, error) {
	r := &reader{request: true}
	var request SolveRequest
	if node := r.object(body); node != nil {
		got, _ := solveRequest.read(value{r: r, node: node})
		rec, _ := got.(record)
		request = decode[SolveRequest](solveRequest, rec)
		rec.into(&request.Identity)
		rec.into(&request.Identity.Picture)
		request.rules(rec)
	}
	if len(r.problems) > 0 {
		return SolveRequest{}, r.problems.sorted()
	}
	return request, nil
}

// rules checks what the fields say together.
func (s *SolveRequest) rules(rec record) {
	id := &s.Identity
	rec.proxyRules(record{}, id)
	if rec.has("type") && !rec.bad("type") {
		for _, f := range solveFields {
			switch has, fits := rec.has(f.key), f.of(id.Type); {
			case has && !fits:
				rec.misplaced(f, id.Type)
			case f.must && fits && !has:
				rec.child(f.key).fail("is missing: %s needs it", id.Type)
			}
		}
	}
	if id.Picture.MaxLength > 0 && id.Picture.MinLength > id.Picture.MaxLength {
		rec.at("max_length").fail("must not be below min_length (%d of %d)", id.Picture.MaxLength, id.Picture.MinLength)
	}
	if s.DedupProxy && s.Dedup == DedupRequest && !rec.bad("dedup") {
		rec.at("dedup_proxy").fail("belongs to dedup: identity: remove it, or set dedup")
	}
	if s.Image != nil {
		sum := sha256.Sum256(s.Image)
		id.Picture.SHA256 = hex.EncodeToString(sum[:])
	}
}

// picture is the bytes of a picture, which are base64 in the request, as a []byte. No
// message quotes it.
var picture = textual{most: 2 * MostPicture, parse: func(e expansion) (any, string) {
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
}}

// meant are the names that solving services have for fields of a request.
var meant = map[string]string{
	"method": "type", "googlekey": "sitekey", "websitekey": "sitekey", "websiteurl": "pageurl", "url": "pageurl", "body": "image", "base64": "image", "file": "image",
	"score": "min_score", "useragent": "user_agent", "regsense": "case_sensitive", "case": "case_sensitive", "calc": "math", "lang": "language",
	"textinstructions": "instructions", "comment": "instructions", "minlen": "min_length", "maxlen": "max_length", "numeric": "charset",
}

// otherSpelling explains a field that a request does not have.
func otherSpelling(key string) string {
	if field := meant[simple(key)]; field != "" {
		return fmt.Sprintf("unknown field: did you mean %s?", field)
	}
	return ""
}

// RequestField describes a field of a request, for programs that make one.
type RequestField struct {
	Key string
	Doc string
	// Default is a string, bool, int, float64 or time.Duration, as the value is; the zero
	// value where there is none.
	Default any
}

// RequestFields lists the fields of a request.
func RequestFields() []RequestField {
	list := make([]RequestField, len(solveFields))
	for i, f := range solveFields {
		list[i] = RequestField{Key: f.key, Doc: f.doc, Default: f.preset}
		switch k := f.kind.(type) {
		case textual:
			if k.words != nil {
				list[i].Doc += " One of " + strings.Join(k.words, ", ") + "."
			}
			list[i].Default = ""
			if f.preset != nil {
				list[i].Default = fmt.Sprint(f.preset)
			}
		case boolean:
			list[i].Default = false
		case integer:
			list[i].Default = 0
		case number:
			list[i].Default = 0.0
		}
	}
	return list
}
