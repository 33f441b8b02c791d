package simulated

import (
	"cmp"
	"crypto/subtle"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
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
	opts *Options

	mu    sync.Mutex // guards everything below
	lots  *rand.Rand
	last  int64   // number of the newest task
	tasks []*Task // tasks with the numbers up to last
}

// New returns a service. It starts no goroutine.
func New(opts Options) *Service {
	opts = opts.withDefaults()
	seed := cmp.Or(opts.Seed, rand.Uint64()) //nolint:gosec // not a secret
	lots := randomOf(seed, orderStream)
	last := 1_000_000_000 + lots.Int64N(8_000_000_000) // a random number of ten digits, like the ids of real services
	return &Service{opts: &opts, lots: lots, last: last}
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
	read, at := wire.ReadTasks, time.Now()
	if legacy {
		read = wire.ReadLegacy
	}
	c := read(sent)
	if err != nil {
		c.Bad = wire.CodeBadParams
	}
	t, code := s.execute(c, legacy, at)
	var reply wire.Reply
	if legacy {
		reply = s.legacyReply(c, t, code, at)
	} else {
		reply = wire.JSON(s.tasksReply(c, t, code))
	}
	w.Header().Set("Content-Type", reply.Type)
	_, _ = w.Write(reply.Body)
}

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
