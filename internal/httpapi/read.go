package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/solve"
	"poold/internal/targets"
)

// MaxBody is the maximum size of a body, except on routes that accept pictures (see readPicture).
const MaxBody = 64 << 10

// pictureLimit limits the time in which a body larger than MaxBody must arrive.
const pictureLimit = 30 * time.Second

// Param is a parameter of a query.
type Param struct {
	Name string
	Want string                  // the rule for the value: "must be ..."
	Set  func(value string) bool // returns false if the value is invalid
}

// Refuse returns the problem for a missing or invalid value.
func (p *Param) Refuse() error { return NewProblem(CodeBadRequest, p.Name+" "+p.Want) }

// ReadQuery reads the parameters of the query, each of which may occur at most once. It refuses any
// other parameter, because a misspelt parameter would have no effect.
func (c *Context) ReadQuery(params ...Param) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return NewProblem(CodeBadRequest, "the query is not well-formed: percent-encode the values")
	}
	known := make([]string, len(params))
	for i := range params {
		known[i] = params[i].Name
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		i := slices.Index(known, name)
		switch {
		case len(known) == 0:
			return NewProblem(CodeBadRequest, "this route takes no query parameters")
		case i < 0:
			text := "the query has an unknown parameter; known: " + strings.Join(known, ", ")
			if meant := targets.Nearest(name, known); meant != "" {
				text += "; did you mean " + meant + "?"
			}
			return NewProblem(CodeBadRequest, text)
		case len(query[name]) > 1:
			return NewProblem(CodeBadRequest, name+" is given more than once")
		case !params[i].Set(query.Get(name)):
			return params[i].Refuse()
		}
	}
	return nil
}

// duration returns a parameter that is a duration from 0 to the given maximum.
func duration(name string, maximum time.Duration, into *time.Duration) Param {
	return Param{
		Name: name, Want: "must be a duration from 0s to " + maximum.String() + ", such as 20s; a bare number is seconds",
		Set: func(text string) bool {
			if strings.Trim(text, "0123456789.") == "" {
				text += "s"
			}
			d, err := time.ParseDuration(text)
			*into = d
			return err == nil && 0 <= d && d <= maximum
		},
	}
}

// whole returns a parameter that is a whole number from 1 to the given maximum.
func whole(name string, maximum int, into *int) Param {
	return Param{Name: name, Want: fmt.Sprintf("must be a whole number from 1 to %d", maximum),
		Set: func(text string) (ok bool) {
			n, err := strconv.Atoi(text)
			*into = n
			return err == nil && 1 <= n && n <= maximum && strconv.Itoa(n) == text
		}}
}

// moment returns a parameter that is a day or a time.
func moment(name string, into *time.Time) Param {
	return Param{
		Name: name,
		Want: "must be a UTC day such as 2026-01-02, or a time in RFC 3339 such as 2026-01-02T15:04:05Z, " +
			"in which a + is written as %2B; from 1970 to 9999",
		Set: func(text string) (ok bool) {
			if *into, ok = readDay(text); ok {
				return true
			}
			at, err := time.Parse(time.RFC3339, text)
			*into = at.UTC()
			return err == nil && storable(*into)
		},
	}
}

// oneOf returns a parameter that is one of the given texts.
func oneOf(name, want string, into *string, allowed ...string) Param {
	return Param{Name: name, Want: want,
		Set: func(text string) bool { *into = text; return slices.Contains(allowed, text) }}
}

func readDay(text string) (time.Time, bool) {
	day, err := time.Parse(time.DateOnly, text)
	return day, err == nil && storable(day)
}

// storable reports whether all stores can represent a time.
func storable(at time.Time) bool { return at.Year() >= 1970 && at.Year() <= 9999 }

// ReadNothing reads the body of a request to a route that needs no body. ReadNothing accepts `{}`,
// which many clients send. Any other body is refused, because the body would have no effect.
func (c *Context) ReadNothing() error {
	body, err := c.ReadBody(MaxBody)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return c.decode(body, "this route takes no body, or {}", new(struct{}))
}

// ReadBody reads a body to its end, because net/http can notice a hang-up of the client only after
// the body has been read.
func (c *Context) ReadBody(most int64) ([]byte, error) {
	r := c.Request()
	if r.ContentLength == 0 {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Response().Writer, r.Body, most))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, NewProblem(CodeTooLarge, fmt.Sprintf("the body is larger than %d KiB", most>>10))
	}
	if err != nil {
		return nil, NewProblem(CodeBadRequest, "the body did not arrive completely; send it again")
	}
	return body, nil
}

// CheckJSON refuses a body that is not declared as JSON, because a form on any web page can send
// such a body.
func (c *Context) CheckJSON() error {
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return NewProblem(CodeBadRequest, "the body needs the header Content-Type: application/json")
	}
	return nil
}

// ReadObject reads a body that is one JSON object with the fields of the given struct. The argument
// want is a description of a valid body for error messages.
func (c *Context) ReadObject(want string, into any) error {
	body, err := c.ReadBody(MaxBody)
	if err != nil {
		return err
	}
	return c.decode(body, want, into)
}

func (c *Context) decode(body []byte, want string, into any) error {
	if err := c.CheckJSON(); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil || !errors.Is(decoder.Decode(new(any)), io.EOF) {
		return NewProblem(CodeBadRequest, want)
	}
	return nil
}

// reserve takes one of the places for bodies larger than MaxBody, which contain pictures, until release is called.
func reserve(c *Context, limit *solve.Semaphore) (release func(), err error) {
	release, ok := limit.Take(c.callerName())
	if !ok {
		err = NewProblem(CodeOverloaded, "too many requests with pictures are in flight")
	}
	return release, err
}

// readPicture reads a body of at most the given number of bytes. The caller must call release when it no longer needs
// the picture, even after an error. Without a free place for a large body, readPicture reads the body, discards it and
// fails with CodeOverloaded. It reads it because many clients read no response before they have sent their request.
func readPicture(c *Context, limit *solve.Semaphore, most int64) (body []byte, release func(), err error) {
	release = func() {}
	r := c.Request()
	large := r.ContentLength < 0 || r.ContentLength > MaxBody
	if large { // it takes longer than other bodies; before a right key, package listener allows 10 s
		_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Now().Add(pictureLimit))
		if release, err = reserve(c, limit); err != nil {
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(c.Response().Writer, r.Body, most))
			return nil, release, err
		}
	}
	body, err = c.ReadBody(most)
	return body, release, err
}
