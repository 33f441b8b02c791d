package httpapi

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
)

const (
	// maxWait is the longest ?wait=.
	maxWait = 60 * time.Second
	// defaultWait is what `on_empty: wait` stands for.
	defaultWait = 20 * time.Second
	// writeLimit is how long a request may take, from its header to the last
	// byte of its answer; the wait for a token comes on top. A token or a page is
	// a few kilobytes; who needs longer is not reading.
	writeLimit = 10 * time.Second
)

// Config is the configuration file; *targets.File implements it. Current must
// not be nil by the time the first request arrives.
type Config interface {
	Current() *targets.Set
	Status() targets.Status
	// Reload reads the file now; targets.Problems says what is wrong with it.
	Reload(ctx context.Context) error
}

// Reporter counts how a token did; see pool.Tokens.Report.
type Reporter interface {
	Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (pool.Sale, error)
}

// Taker hands out tokens and takes back those that nobody received.
type Taker interface {
	Take(ctx context.Context, r pool.Request) (pool.Token, error)
	Return(t pool.Token) error
}

// Surveyor tells what the stock holds.
type Surveyor interface {
	// Survey answers in the order of the queries; see pool.Tokens.Survey.
	Survey(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	// Health tells how Redis serves; it does not block.
	Health() pool.Health
}

// Keeper acts on one identity, over all replicas.
type Keeper interface {
	Pause(ctx context.Context, id captcha.ID) error
	Resume(ctx context.Context, id captcha.ID) error
	// Warm keeps a window; see pool.Controls.Warm.
	Warm(ctx context.Context, id captcha.ID, w pool.Window, limit pool.WindowLimit) error
	// Flush throws the tokens away and says how many could have been handed out.
	Flush(ctx context.Context, id captcha.ID, margin time.Duration) (thrown int, err error)
}

// Stock is everything that is asked of the store: pool.Tokens, pool.Controls and its health.
type Stock interface {
	Taker
	Reporter
	Surveyor
	Keeper
}

// Refill is the buying side; *refill.Manager implements it.
type Refill interface {
	// Note tells how a target's refilling is doing; false while it has none.
	Note(name string) (refill.Note, bool)
	// Kick makes refill look at an identity soon. It does not block.
	Kick(id captcha.ID)
}

// Accounts is how the buying goes, over all targets.
type Accounts interface {
	Providers(ctx context.Context, at time.Time) []purchase.Status
	// Booked tells what is used of the budget over all targets; perDay 0 = there
	// is none.
	Booked(ctx context.Context) (used, perDay int, err error)
	// Stranded lists paid tasks that nobody can be asked about.
	Stranded() []purchase.Stranded
}

// ProviderMessages carries word from the providers and to them.
type ProviderMessages interface {
	// Callback fails with purchase.ErrNotKept where the provider should try again.
	Callback(ctx context.Context, c purchase.Callback) error
	// Report tells a provider how a token did, later. It does not block.
	Report(provider, task string, t captcha.Type, age time.Duration, accepted bool)
}

// DeadLetters keeps the callbacks that could not be stored.
type DeadLetters interface {
	// DeadLetters tells with an error those that can be read.
	DeadLetters() ([]purchase.DeadLetter, error)
	DeadLetterCount() int
	DeadLettersSetAside() int
	// Replay tries all of them now; pool.ErrDown where Redis is away.
	Replay(ctx context.Context) (purchase.Replayed, error)
}

// Buyer is everything that is asked of the buying; *purchase.Buyer implements it.
type Buyer interface {
	Accounts
	ProviderMessages
	DeadLetters
}

// Deps is what a Server is made of. All fields but RedisMode and the version
// are required.
type Deps struct {
	Config  Config
	Stock   Stock
	Refill  Refill
	Buyer   Buyer
	Metrics *Metrics
	Log     *slog.Logger

	RedisMode string    // embedded | single | sentinel | cluster
	Version   string    // shown in /status.json
	StartedAt time.Time // of the daemon
}

// Server answers HTTP requests. Its methods may be used by many goroutines.
type Server struct {
	config  Config
	stock   Stock
	refill  Refill
	buyer   Buyer
	metrics *Metrics
	log     *slog.Logger

	redisMode string
	version   string
	startedAt time.Time

	page      *template.Template
	css       []byte
	handler   http.Handler
	stopping  atomic.Bool
	views     atomic.Pointer[view] // derived from the current Set
	buildView sync.Mutex           // held while a view is derived
	changes   atomic.Uint64        // counts what a snapshot taken before would miss
	snapshots shared[snapshotKey, *snapshot]
	known     atomic.Pointer[map[captcha.ID]pool.Stock] // the last that Redis said
	booked    atomic.Pointer[Window]                    // of the budget over all targets, likewise; nil = none
	providers shared[*targets.Set, []purchase.Status]
	buffers   sync.Pool // *[]byte, for token answers
	wrongKeys wrongKeys
}

// New returns a Server that has started nothing. It panics if a page template
// does not parse, which a test would have shown.
func New(d Deps) *Server {
	s := &Server{
		config: d.Config, stock: d.Stock, refill: d.Refill, buyer: d.Buyer,
		metrics: d.Metrics, log: d.Log,
		redisMode: d.RedisMode, version: d.Version, startedAt: d.StartedAt,
		page: parsePage(), css: readCSS(),
	}
	s.buffers.New = func() any { return new([]byte) }
	s.handler = s.routes()
	return s
}

// Handler returns the whole API. Served by anything but HTTPServer on a
// CountListener it works, with two differences: without ConnContext a token
// whose answer could not be written is never returned to the stock, and a wait
// ends with whatever WriteTimeout the other server has.
func (s *Server) Handler() http.Handler { return s.handler }

// HTTPServer returns a server with the limits that this API is made for; the
// caller gives it a listener from CountListener and shuts it down. HTTP/2 is
// off, so that the bytes on a connection belong to one request at a time.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: s.handler,
		// One limit for header and body, and one for the answer: each further
		// deadline is a timer to be set for every token.
		ReadTimeout:    5 * time.Second, // net/http lifts it once the request is read, so a caller may wait longer
		WriteTimeout:   writeLimit,
		IdleTimeout:    60 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ConnContext:    ConnContext,
		Protocols:      protocols,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Stopping makes /readyz answer 503 and refuses new requests for a token, so
// that balancers look elsewhere while requests under way finish. It cannot be
// undone. Callers that wait already are sent away by the stock.
func (s *Server) Stopping() {
	s.stopping.Store(true)
	s.changes.Add(1)
}

// unready lists why this replica should get no traffic; empty means ready.
func (s *Server) unready() []*problem {
	var reasons []*problem
	if s.stopping.Load() {
		reasons = append(reasons, fault(codeShuttingDown, "the daemon is stopping"))
	}
	if health := s.stock.Health(); !health.Up {
		reasons = append(reasons, fault(codeStoreDown, health.Reason))
	}
	return reasons
}
