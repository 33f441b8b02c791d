package kernel

import (
	"bytes"
	"context"
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

// MaxBody is the maximum size of a body, except on routes that accept pictures (see Bodies.Read).
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

// Bodies limits the memory and processor time for large bodies, which contain pictures. Before a
// large body is read, it takes room in server.body_budget. The room is freed when no request needs
// the body any more. At most half of the processors decode large bodies at the same time, so that
// requests for tokens stay fast.
type Bodies struct {
	decoders chan struct{} // semaphore: one element for each running decoder
	onMany   func(bool)    // Deps.ManyBodies; nil = none

	mu    sync.Mutex
	taken int64 // used bytes of the budget
}

// If the bodies in use exceed manyBodies bytes, the function onMany is called.
const manyBodies = 32 << 20

// NewBodies returns an empty Bodies. The argument onMany is Deps.ManyBodies; it may be nil.
func NewBodies(onMany func(bool)) *Bodies {
	return &Bodies{decoders: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), onMany: onMany}
}

// addLocked changes the number of bytes in use, and calls the function onMany if the number begins
// or ceases to exceed manyBodies.
func (b *Bodies) addLocked(bytes int64) {
	was := b.taken > manyBodies
	b.taken += bytes
	if is := b.taken > manyBodies; is != was && b.onMany != nil {
		b.onMany(is)
	}
}

// Room is the part of the budget that one request uses. The handler and each caller of Hold own the
// room together.
type Room struct {
	bodies *Bodies
	most   int64 // the budget

	// Guarded by bodies.mu.
	bytes   int64
	holders int
}

// Read reads a body of at most the given number of bytes. A body larger than MaxBody takes room;
// the caller must release the room, even after an error. If the budget has no room, Read discards
// the body and fails with CodeOverloaded. Read still reads the whole body, because many clients
// read no response before they have sent it.
func (b *Bodies) Read(r *http.Request, c *Call, most int64) (body []byte, taken *Room, err error) {
	taken = &Room{bodies: b, most: int64(c.Access.Set.Server.BodyBudget), holders: 1}
	length := r.ContentLength
	if length < 0 || length > most {
		length = most
	}
	if length > MaxBody {
		if err := taken.Resize(length); err != nil {
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(c.W.ResponseWriter, r.Body, most))
			return nil, taken, err
		}
	}
	body, err = ReadBody(r, c.W.ResponseWriter, most)
	return body, taken, err
}

// Resize sets the size of the room to the number of bytes that are still needed. Resize fails with
// CodeOverloaded if the budget has no room.
func (m *Room) Resize(bytes int64) error {
	b := m.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	if more := bytes - m.bytes; more > 0 && b.taken+more > m.most {
		return NewProblem(CodeOverloaded,
			fmt.Sprintf("the bodies of requests in flight use all of server.body_budget (%d MiB)", m.most>>20)).RetrySoon()
	}
	b.addLocked(bytes - m.bytes)
	m.bytes = bytes
	return nil
}

// Hold keeps the room until the returned function is called, even if the handler releases the room
// earlier.
func (m *Room) Hold() (release func()) {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	m.holders++
	return sync.OnceFunc(m.Release)
}

// Release ends the use of the room by one owner. When the last owner calls Release, the bytes
// return to the budget.
func (m *Room) Release() {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	if m.holders--; m.holders == 0 {
		m.bodies.addLocked(-m.bytes)
		m.bytes = 0
	}
}

// Decode waits for a free decoder and then calls the function decode, which decodes the body. If
// ctx ends first, Decode returns the error of ctx. For a small body, Decode does not wait.
func (m *Room) Decode(ctx context.Context, decode func()) error {
	m.bodies.mu.Lock()
	small := m.bytes == 0
	m.bodies.mu.Unlock()
	if small {
		decode()
		return nil
	}
	select {
	case m.bodies.decoders <- struct{}{}:
		defer func() { <-m.bodies.decoders }()
		decode()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
