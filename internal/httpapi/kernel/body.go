package kernel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime"
	"sync"

	"poold/internal/strictjson"
)

// MaxBody is the maximum size of a body, except on routes that accept pictures (see Pictures.Read).
const MaxBody = 64 << 10

// ReadNothing reads the body of a request to a route that needs no body. ReadNothing accepts `{}`,
// which many clients send. Any other body is refused, because the body would have no effect.
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
		return NewProblem(CodeBadRequest, "this route takes no body, or {}")
	}
	return nil
}

// ReadBody reads a body to its end, because net/http can notice a hang-up of the client only after
// the body has been read.
func ReadBody(r *http.Request, w http.ResponseWriter, most int64) ([]byte, error) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, most), min(r.ContentLength, most+1))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, NewProblem(CodeTooLarge, fmt.Sprintf("the body is larger than %d KiB", most>>10))
	}
	if err != nil {
		return nil, NewProblem(CodeBadRequest, "the body did not arrive completely; send it again")
	}
	return body, nil
}

// readAll reads until the end of the input. If the given length is above 0, readAll allocates
// little more memory than this length.
func readAll(from io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(from)
	}
	body := bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
	_, err := body.ReadFrom(from)
	return body.Bytes(), err
}

// CheckJSON refuses a body that is not declared as JSON, because a form on any web page can send
// such a body.
func CheckJSON(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return NewProblem(CodeBadRequest, "the body needs the header Content-Type: application/json")
	}
	return nil
}

// ReadObject reads a body that is one JSON object, without nested values and with each field at
// most once. The argument want is a description of a valid body for error messages. ReadObject
// calls the function setField for each field. If the value of the field is invalid, setField
// returns a text that describes the problem; "" = the value is valid. The keys of the returned map
// are the names of the fields in the body.
func ReadObject(r *http.Request, w http.ResponseWriter, want string, setField func(field string, value json.Token) (wrong string)) (given map[string]bool, err error) {
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
		if wrong := setField(field, value); wrong != "" {
			return NewProblem(CodeBadRequest, wrong)
		}
		return nil
	})
	if refused := (*Problem)(nil); err != nil && !errors.As(err, &refused) {
		err = NewProblem(CodeBadRequest, want)
	}
	return given, err
}

// mostPictures is the maximum number of large bodies in use at a replica.
const mostPictures = 256

// Pictures limits the memory and processor time for bodies larger than MaxBody, which contain
// pictures. At most half of the processors decode such bodies at the same time, so that requests for
// tokens stay fast.
type Pictures struct{ inUse, decoders chan struct{} }

// NewPictures returns Pictures without any body in use.
func NewPictures() *Pictures {
	return &Pictures{inUse: make(chan struct{}, mostPictures), decoders: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Read reads a body of at most the given number of bytes, and calls the function decode with it. The
// caller must call release when it no longer needs the picture, even after an error. If too many
// large bodies are in use, Read discards the body and fails with CodeOverloaded. Read still reads
// the whole body, because many clients read no response before they have sent it.
func (p *Pictures) Read(r *http.Request, c *Call, most int64, decode func(body []byte)) (release func(), err error) {
	release = func() {}
	large := r.ContentLength < 0 || r.ContentLength > MaxBody
	if large {
		select {
		case p.inUse <- struct{}{}:
			release = sync.OnceFunc(func() { <-p.inUse })
		default:
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(c.W.ResponseWriter, r.Body, most))
			return release, NewProblem(CodeOverloaded, fmt.Sprintf("%d requests with pictures are in flight", mostPictures)).RetrySoon()
		}
	}
	body, err := ReadBody(r, c.W.ResponseWriter, most)
	if err != nil {
		return release, err
	}
	if large {
		select {
		case p.decoders <- struct{}{}:
			defer func() { <-p.decoders }()
		case <-r.Context().Done():
			return release, ErrHungUp
		}
	}
	decode(body)
	return release, nil
}
