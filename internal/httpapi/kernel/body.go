package kernel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"poold/internal/strictjson"
)

// MaxBody is the most that a request may carry, but for one to /solve.
const MaxBody = 64 << 10

// ReadNothing reads the body of a request to a route that has no use for one.
// Many clients send `{}`; a body that asks for something is refused, since it would have
// no effect.
func ReadNothing(r *http.Request, w http.ResponseWriter) error {
	body, err := ReadBody(r, w, MaxBody)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	if err := CheckJSON(r); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || len(fields) > 0 {
		return NewProblem(CodeBadRequest, "this route takes no body, or an empty JSON object")
	}
	return nil
}

// ReadBody reads a body to its end, so that net/http notices when a client hangs
// up.
func ReadBody(r *http.Request, w http.ResponseWriter, most int64) ([]byte, error) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, most), min(r.ContentLength, most+1))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, NewProblem(CodeTooLarge, fmt.Sprintf("a body has %d KiB at most", most>>10))
	}
	if err != nil {
		return nil, NewProblem(CodeBadRequest, "the body did not arrive in one piece")
	}
	return body, nil
}

// readAll reads to the end. For a known length, above 0, it takes no more memory than
// that.
func readAll(from io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(from)
	}
	body := bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
	_, err := body.ReadFrom(from)
	return body.Bytes(), err
}

// CheckJSON refuses a body of another type, which a form of any page can send.
func CheckJSON(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return NewProblem(CodeBadRequest, "a body needs Content-Type: application/json")
	}
	return nil
}

// ReadObject reads a body that is one JSON object of single values, each field given at
// most once. want describes the whole body. set takes each field and returns its fault, or
// "". given holds the names of the fields.
func ReadObject(r *http.Request, w http.ResponseWriter, want string, set func(field string, value json.Token) (wrong string)) (given map[string]bool, err error) {
	body, err := ReadBody(r, w, MaxBody)
	if err != nil {
		return nil, err
	}
	if err := CheckJSON(r); err != nil {
		return nil, err
	}
	given = map[string]bool{}
	err = strictjson.Object(body, func(field string, value json.Token) error {
		given[field] = true
		if wrong := set(field, value); wrong != "" {
			return NewProblem(CodeBadRequest, wrong)
		}
		return nil
	})
	if refused := (*Problem)(nil); err != nil && !errors.As(err, &refused) {
		err = NewProblem(CodeBadRequest, want)
	}
	return given, err
}
