package httpapi

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"poold/internal/httpapi/compatapi"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
	"poold/internal/httpapi/page"
	"poold/internal/redisdb"
	"poold/internal/status"
)

// Config gives access to the configuration file; *reload.File implements it.
type Config interface {
	Sets
	Reloader
}

// Pool is what replicas share in Redis; *pool.Pool implements it.
type Pool interface {
	Taker
	kernel.Looker
	delivery.Canceller
	delivery.ReportCounter
	Controls
}

// Buyer buys tokens from the providers; *purchase.Buyer implements it.
type Buyer interface {
	delivery.ReportSender
	CallbackTaker
	historyapi.Journal
	Operations
}

// Deps are the dependencies of a Server. The fields History, Audit and Auditor are optional.
type Deps struct {
	Config    Config
	Pool      Pool
	Health    func() redisdb.Health // of Redis; it does not block
	IDs       delivery.IDs
	Buyer     Buyer
	Outcomes  delivery.Outcomes
	Solver    Solver
	Tasks     compatapi.ClientTasks
	History   historyapi.Store // nil = no history is kept
	Audit     historyapi.Audit // nil = no audit is kept
	Auditor   delivery.Auditor // nil = no audit is kept
	Status    *status.Collector
	Events    Events
	Metrics   *Metrics
	Log       *slog.Logger
	AccessLog bool // log each request at level info; otherwise at level debug
}

// Server admits HTTP requests and passes them to the handlers of their routes. The Server also
// writes the error responses. A Server is safe for concurrent use.
type Server struct {
	gate      *gate
	pool      kernel.Looker
	status    *status.Collector
	metrics   *Metrics
	log       *slog.Logger
	accessLog bool
	handler   http.Handler
	stopping  *atomic.Bool
}

// New returns a Server and starts nothing. If a page template does not parse, New panics.
func New(d Deps) *Server {
	s := &Server{
		gate: &gate{sets: d.Config, wrongKeys: kernel.NewWrongKeys(d.Log)}, pool: d.Pool,
		status: d.Status, metrics: d.Metrics, log: d.Log, accessLog: d.AccessLog, stopping: new(atomic.Bool),
	}
	out := delivery.Sender{Pool: d.Pool, IDs: d.IDs, Audit: delivery.Audit{To: d.Auditor}, Metrics: d.Metrics}
	bought := delivery.Supply{Pool: d.Pool, Outage: d.Status.Outage}
	reported := &delivery.Reports{Pool: d.Pool, IDs: d.IDs, Buyer: d.Buyer, Outcomes: d.Outcomes, Audit: out.Audit, Metrics: d.Metrics}
	pictures := kernel.NewPictures()
	s.handler = s.routes(&areas{
		tokens:  tokens{Sender: out, supply: bought, pool: d.Pool, solver: d.Solver, gate: s.gate, stopping: s.stopping},
		solves:  solves{Sender: out, supply: bought, solver: d.Solver, pictures: pictures, gate: s.gate, stopping: s.stopping},
		reports: reported,
		clients: compatapi.Routes{
			Sender: out, Tasks: d.Tasks, Supply: bought, Reports: reported, WrongKeys: s.gate.wrongKeys, Status: d.Status, Stopping: s.stopping, Pictures: pictures, Log: d.Log,
		},
		admin:     admin{pool: d.Pool, file: d.Config, buyer: d.Buyer, status: d.Status, events: d.Events, log: d.Log},
		pages:     page.New(d.Status),
		scrapes:   &scrapes{metrics: d.Metrics, sets: d.Config, status: d.Status},
		callbacks: callbacks{buyer: d.Buyer},
		history:   historyapi.Routes{Store: d.History, Audit: d.Audit, Journal: d.Buyer, Status: d.Status},
		events:    eventRoutes{list: d.Events},
		probes:    probes{health: d.Health, stopping: s.stopping},
	})
	return s
}

// Handler returns the handler of all routes. The handler is meant for a server that HTTPServer
// returned and that serves on a listener from CountListener. The handler also works with other
// servers, with two differences. Without ConnContext, a token whose response could not be written
// is never returned to the stock. With another WriteTimeout, the server may end a caller's wait too
// early.
func (s *Server) Handler() http.Handler { return s.handler }

// HTTPServer returns a server with the limits of this API. The caller must serve on a listener from
// CountListener, and must shut the server down. HTTP/2 is off, so that all bytes on a connection
// belong to one request at a time.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: s.handler,
		// There are only two limits: one for header and body, and one for the response. Each further
		// limit would cost a timer for every request.
		ReadTimeout:    5 * time.Second, // covers only the reading of the request, so a caller may wait longer
		WriteTimeout:   kernel.WriteLimit,
		IdleTimeout:    60 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ConnContext:    delivery.ConnContext,
		Protocols:      protocols,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Stopping refuses new requests for a token. From now on /readyz answers 503,
// so that balancers choose another replica while requests in flight finish. Stopping cannot be
// undone. The waits of pending callers do not end; see pool.Pool.EndWaits.
func (s *Server) Stopping() {
	s.stopping.Store(true)
	s.status.Stopping()
}
