package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/events"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/pool/tokenid"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/solve"
	"poold/internal/spool"
	"poold/internal/status"
)

// Config gives access to the configuration file; *reload.File implements it.
type Config interface {
	status.File
	// Reload fails with targets.Problems if the file is invalid. The argument `by` is the name of the
	// requester, for the log.
	Reload(ctx context.Context, by string) error
}

// Pool is what replicas share in Redis; *pool.Pool implements it.
type Pool interface {
	Counts(ctx context.Context, q pool.Query) (pool.Counts, error)
	// Cancel returns the token of a call to the stock because the answer was not sent. It does not block.
	Cancel(c *pool.Call)
	// Shared adds a row to the audit about a caller that shares a token.
	Shared(ctx context.Context, t *pool.Token, row string) error
	Report(ctx context.Context, order string, hash captcha.ID, accepted bool, caller, nonce,
		row string) (pool.Effect, pool.Sale, error)
	Pause(ctx context.Context, id captcha.ID, reason string, length time.Duration) error
	// Resume ends a pause. If orders of the identity fail, Resume also allows the next order at once, and returns true.
	Resume(ctx context.Context, id captcha.ID) (tried bool, err error)
	Flush(ctx context.Context, id captcha.ID) (dropped int, err error)
}

// Buyer buys tokens from the providers; *purchase.Buyer implements it.
type Buyer interface {
	status.Providers
	// Report passes a report on to the provider in the background. It does not block.
	Report(provider, task string, t captcha.Type, age time.Duration, accepted bool)
	// Callback returns purchase.ErrNotKept if the provider should try again.
	Callback(ctx context.Context, c purchase.Callback) error
	// OrdersInFlight lists the orders in flight of all replicas.
	OrdersInFlight(ctx context.Context) ([]purchase.OrderInFlight, error)
	// Probe tries a provider immediately. Its error is purchase.ErrUnknownProvider, the service's error, or
	// pool.ErrDown.
	Probe(ctx context.Context, provider string) error
	// DeadLetters returns the callbacks that could not be stored, and an error if some of the dead
	// letters cannot be read.
	DeadLetters() ([]spool.Summary, error)
	// Replay retries all dead letters, and counts their outcomes. An error means that Redis could not store a result.
	Replay(ctx context.Context) (outcomes map[string]int, err error)
}

// Solver solves on demand; *solve.Solver implements it.
type Solver interface {
	Solve(ctx context.Context, r solve.Request) (pool.Token, error)
	// Take serves a request for a target. It does not count as a request to POST /solve.
	Take(ctx context.Context, r solve.Request) (pool.Token, error)
	// Await takes a token without buying one. It ends the wait if no token can come.
	Await(ctx context.Context, r solve.Request) (pool.Token, error)
}

// Events is the list of the events of all replicas; *events.Log implements it.
type Events interface {
	// Note adds an event. It does not block.
	Note(e events.Event) (isNew bool)
	// Recent returns all kept events, the newest first.
	Recent(ctx context.Context) ([]events.Event, error)
}

// Deps are the dependencies of a Server.
type Deps struct {
	Config    Config
	Pool      Pool
	Health    func() redisdb.Health // of Redis; it does not block
	IDs       *tokenid.Secret
	Buyer     Buyer
	Solver    Solver
	Tasks     *compat.Tasks
	History   history.Sink // nil = no history is kept
	Audit     bool         // whether the history has an audit
	Status    *status.Collector
	Events    Events
	Metrics   *Metrics
	Log       *slog.Logger
	UsedUp    pool.ToldUsedUp // is called if the budget of a key refuses a take
	AccessLog bool            // log each request at level info; otherwise at level debug
}

// mostPictures limits the number of bodies with pictures that a replica holds at the same time. mostStrangers limits
// the number of bodies that are read at the same time before their caller is known, because the body contains the key.
const mostPictures, mostStrangers = 256, 64

// Server answers HTTP requests. Its methods that take a *Context are the handlers of routes.
// A Server is safe for concurrent use.
type Server struct {
	Deps

	pictures    *solve.Semaphore
	strangers   *solve.Semaphore // of callers whose key is in the body
	wrongKeys   func(address string) bool
	wrongLogged func(address string) bool // log lines about wrong keys
	refusals    func(caller string) bool  // log lines about refused calls of clients
	looks       singleflight.Group
	handler     http.Handler
	stopping    atomic.Bool

	mu      sync.Mutex
	current *Access // derived from the Set in use; guarded by mu
}

// New returns a Server and starts nothing.
func New(d Deps) *Server {
	s := &Server{
		Deps: d, pictures: solve.NewSemaphore(mostPictures), strangers: solve.NewSemaphore(mostStrangers),
		wrongKeys: perSender(triesAMinute, RetryWrong), wrongLogged: perSender(1, time.Minute),
		refusals: perSender(1, refusalEvery), current: new(Access),
	}
	s.handler = s.router()
	return s
}

// HTTPServer returns a server with the limits of this API. The caller must serve on a listener.Port, and must shut the
// server down. On connections of another listener, a token whose response could not be written never returns to the
// stock. HTTP/2 is off, so that all bytes on a connection belong to one request at a time.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: s.handler,
		// There are only two limits: one for header and body, and one for the response. Each further
		// limit would cost a timer for every request.
		ReadTimeout:    5 * time.Second, // covers only the reading of the request, so a caller may wait longer
		WriteTimeout:   WriteLimit,
		IdleTimeout:    60 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ConnContext:    connContext,
		Protocols:      protocols,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}

// Stopping refuses new requests for a token. From now on /readyz answers 503,
// so that balancers choose another replica while requests in flight finish. Stopping cannot be
// undone. The waits of pending callers do not end; see pool.Pool.EndWaits.
func (s *Server) Stopping() {
	s.stopping.Store(true)
	s.Status.Stopping()
}
