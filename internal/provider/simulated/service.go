package simulated

import (
	"cmp"
	"crypto/subtle"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"poold/internal/provider/wire"
)

const (
	maxBody        = 4 << 20 // maximum size of a request's body in bytes
	price          = "0.00299"
	defaultBalance = 600
)

// Service is a simulated solving service with one account. All methods are safe for concurrent use.
type Service struct {
	opts  *Options
	books *books
}

// New returns a service. It starts no goroutine.
func New(opts Options) *Service {
	opts = opts.withDefaults()
	seed := cmp.Or(opts.Seed, rand.Uint64()) //nolint:gosec // not a secret
	return &Service{opts: &opts, books: newBooks(&opts, seed)}
}

// ServeHTTP handles one call of either protocol.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	legacy := r.URL.Path == "/in.php" || r.URL.Path == "/res.php"
	switch {
	case !legacy && !wire.IsTasksPath(r.URL.Path):
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost && (!legacy || r.Method != http.MethodGet):
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	sent := wire.Request{
		Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), RawQuery: r.URL.RawQuery, Body: body,
	}
	incomplete := ""
	if err != nil {
		incomplete = wire.CodeBadParams
	}
	answer := s.tasksCall
	if legacy {
		answer = s.legacyCall
	}
	reply := answer(sent, incomplete, time.Now())
	w.Header().Set("Content-Type", reply.Type)
	_, _ = w.Write(reply.Body)
}

// Tasks returns copies of the tasks in the order of their sales.
func (s *Service) Tasks() []Task { return s.books.list() }

// keyError returns the error code for an invalid key, and "" for a valid key.
func (s *Service) keyError(key string) string {
	switch {
	case key == "":
		return wire.CodeNoKey
	case s.opts.Key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(s.opts.Key)) != 1:
		return wire.CodeUnknownKey
	}
	return ""
}
