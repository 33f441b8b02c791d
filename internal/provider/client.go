package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// The protocols that a Config can name.
const (
	APILegacy = "legacy"
	APITasks  = "tasks"
)

const (
	callLimit      = 10 * time.Second // one call, from dialling to the answer's last byte
	defaultTimeout = 180 * time.Second
	balanceEvery   = time.Minute
	longCode       = 100     // characters of a service's own code that are shown
	maxThreads     = 1 << 20 // a higher count is invalid
)

// Config describes one account at one service.
type Config struct {
	Name         string // for logs
	API          string // APILegacy | APITasks
	Profile      string // one of Profiles
	URL          string // base, without in.php; http or https, no user, no query
	Key          captcha.Secret
	FirstPoll    time.Duration // 0 = the default of Pace
	PollInterval time.Duration // 0 = the default of Pace
	Timeout      time.Duration // a task older than this is given up; 0 = 180 s
	Balance      bool          // ReadBalance may ask

	// Observe is called after every call: action is submit, poll, threads, balance, probe or
	// report; outcome is ok, not_ready, capacity, account, parameters, task, transport or
	// unknown. It must not block; nil = none.
	Observe func(action, outcome string)
	Log     *slog.Logger // changes of state; nil = silent
}

// Pace is how long to wait from a submit to its first poll, and between polls. The defaults
// depend on the profile, the protocol and the type.
func (c Config) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	firstPoll, interval = pace(c.Profile, c.API, t)
	if c.FirstPoll > 0 {
		firstPoll = c.FirstPoll
	}
	if c.PollInterval > 0 {
		interval = c.PollInterval
	}
	return firstPoll, interval
}

// Client is one account at one service. All methods are safe for concurrent use.
type Client struct {
	cfg     Config
	base    string // cfg.URL without a slash at its end
	speak   protocol
	profile profile
	wire    http.RoundTripper
	limit   time.Duration // callLimit
	health  health
	asked   atomic.Int64 // Unix ns of the last balance call
}

// protocol turns calls into requests and replies into answers.
type protocol interface {
	// submit fails if the protocol cannot express the parameters
	submit(r Request) (query, error)
	poll(task string, id captcha.Identity) query
	balance() query
	threads() (q query, offered bool)
	report(task string, t captcha.Type, good bool) (q query, offered bool)
}

// query is one call, ready to be sent.
type query struct {
	path, contentType, body string

	read    func(reply []byte) (answer, error) // its error is of type garbled
	answers captcha.Type                       // polls only: the type of the solution
	secrets []captcha.Secret                   // no answer may contain one: the key, a pingback's
	hide    []captcha.Secret                   // no text may show one: the secrets, and the proxy
	image   []byte                             // no text may show a piece of it
}

// answer is the content of a reply of either protocol.
type answer struct {
	code      string // the service's code for a refusal, unchanged; "" = none
	notReady  bool   // polls only
	text      string // task id or token
	userAgent string // polls only
	dated     bool   // polls only: sinceSubmit is set, as in Solution

	sinceSubmit time.Duration
	number      float64       // balance or threads
	retryAfter  time.Duration // with code and HTTP 429; else 0
}

// New makes a client. It starts no goroutine and makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, string) {}
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	// No error quotes the URL: a mistyped URL may contain the key.
	u, err := url.Parse(cfg.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("provider %s: url: want http(s)://host[/path], without user and query", cfg.Name)
	}
	p, known := profileNamed(cfg.Profile)
	if !known {
		return nil, fmt.Errorf("provider %s: profile: want one of %s", cfg.Name, strings.Join(Profiles(), ", "))
	}
	c := &Client{
		cfg: cfg, base: strings.TrimRight(cfg.URL, "/"),
		profile: p, wire: newTransport(), limit: callLimit,
	}
	switch cfg.API {
	case APILegacy:
		c.speak = legacy{key: cfg.Key, profile: p}
	case APITasks:
		c.speak = tasks{key: cfg.Key, profile: p}
	default:
		return nil, fmt.Errorf("provider %s: api: want %s or %s", cfg.Name, APILegacy, APITasks)
	}
	return c, nil
}

// Name returns Config.Name.
func (c *Client) Name() string { return c.cfg.Name }

// Timeout returns the age at which a task is given up.
func (c *Client) Timeout() time.Duration { return c.cfg.Timeout }

// Pace returns Config.Pace.
func (c *Client) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	return c.cfg.Pace(t)
}

// Ready reports whether an order may be placed at the given time. If not, wait is the time until
// the answer can change. While the provider is down, one caller in each turn gets true: its order
// is the probe.
func (c *Client) Ready(at time.Time) (ready bool, wait time.Duration) { return c.health.ready(at) }

// State returns a snapshot for /status.
func (c *Client) State(at time.Time) State {
	s := c.health.state(at)
	s.Remedy = c.remedy(s.Code)
	return s
}

// Submit buys one task and returns its id. A task with a pingback can be polled too. The error
// is an *Error, or ctx's if the caller gave up before anything was sent. Error.Unknown means
// that the task may have been bought. The picture is not kept.
func (c *Client) Submit(ctx context.Context, r Request) (task string, err error) {
	q, err := c.speak.submit(r)
	if err == nil && r.Identity.Type == captcha.Image && len(r.Image) == 0 {
		err = errors.New("the picture's bytes are missing")
	}
	if err != nil {
		return "", &Error{Class: Parameters, Code: NotAsked, Err: err}
	}
	q.secrets, q.image = pingbackSecrets(r.Pingback), r.Image
	a, err := c.call(ctx, submit, q, r.Identity.Proxy)
	return a.text, err
}

// Poll asks for a task's token. The error is ErrNotReady, an *Error, or ctx's.
// id is the identity that the task was bought for.
func (c *Client) Poll(ctx context.Context, task string, id captcha.Identity) (Solution, error) {
	q := c.speak.poll(task, id)
	q.answers = id.Type
	a, err := c.call(ctx, poll, q, id.Proxy)
	return Solution{Token: a.text, UserAgent: a.userAgent, Dated: a.dated, SinceSubmit: a.sinceSubmit}, err
}

// Threads asks how many tasks the account may have at once. ok is false, and err nil, if the
// service does not offer the call.
func (c *Client) Threads(ctx context.Context) (total int, ok bool, err error) {
	q, offered := c.speak.threads()
	if !offered {
		return 0, false, nil
	}
	a, err := c.call(ctx, threads, q, "")
	switch {
	case err != nil:
		return 0, true, err
	case a.number < 0 || a.number > maxThreads || a.number != math.Trunc(a.number):
		return 0, true, &Error{Class: Task, Code: "odd_thread_count"}
	}
	return int(a.number), true, nil
}

// ReadBalance asks for the account's balance, which State shows from then on.
// It does nothing unless Config.Balance is set, and asks at most once a minute.
func (c *Client) ReadBalance(ctx context.Context) error {
	if !c.cfg.Balance {
		return nil
	}
	now, last := time.Now().UnixNano(), c.asked.Load()
	if last != 0 && now-last < int64(balanceEvery) || !c.asked.CompareAndSwap(last, now) {
		return nil
	}
	a, err := c.call(ctx, balance, c.speak.balance(), "")
	if err != nil {
		return err
	}
	c.health.setBalance(a.number)
	return nil
}

// Close drops idle connections. Calls under way are not disturbed.
func (c *Client) Close() {
	if t, ok := c.wire.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// The actions that Observe gets.
const (
	submit  = "submit"
	poll    = "poll"
	threads = "threads"
	balance = "balance"
	report  = "report"
	probing = "probe" // a balance call in spite of a fault
)

// call makes one call if health permits it, and records its end.
func (c *Client) call(ctx context.Context, action string, q query, proxy captcha.Secret) (answer, error) {
	q.secrets = append(q.secrets, c.cfg.Key)
	q.hide = append(slices.Clone(q.secrets), proxy)
	if p, ok := wire.SplitProxy(proxy.Reveal()); ok {
		q.hide = append(q.hide, captcha.Secret(p.Password))
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	started := time.Now()
	if err := c.health.enter(action, started); err != nil {
		return answer{}, err
	}
	a, err := c.exchange(ctx, q)
	at := time.Now()
	var t *trouble
	if errors.As(err, &t) {
		err = t.asError(action)
	} else {
		err = c.refusal(a, q)
	}
	var fault *Error
	if !errors.As(err, &fault) && err != nil && !errors.Is(err, ErrNotReady) {
		return answer{}, err // the caller cancelled before anything was known
	}
	e := event{action: action, started: started, at: at, trouble: t, fault: fault}
	if change, changed := c.health.settle(e); changed {
		c.announce(ctx, change)
	}
	c.cfg.Observe(action, outcome(err, fault, t))
	if err != nil {
		return answer{}, err
	}
	return a, nil
}

// refusal returns the error of a proper answer that refuses the call, else nil.
func (c *Client) refusal(a answer, q query) error {
	if a.notReady {
		return ErrNotReady
	}
	if a.code == "" {
		return nil
	}
	word, f, known := c.profile.fault(a.code)
	if a.retryAfter > 0 && f.class != Account {
		f.class = Capacity // HTTP 429 overrides the code
	}
	e := &Error{Class: f.class, Code: word, Delay: max(f.delay, a.retryAfter)}
	if !known {
		e.Code = cmp.Or(clean(a.code, longCode, q.hide...), "unprintable")
		if quotes(e.Code, q.image) {
			e.Code = string(echoReply)
		}
	}
	if f.note != "" {
		e.Err = errors.New(f.note)
	}
	return e
}

// announce logs a change of state.
func (c *Client) announce(ctx context.Context, ch change) {
	level, text := slog.LevelInfo, "provider is called again"
	switch {
	case ch.down && ch.account:
		level, text = slog.LevelError, "provider down: account fault" // an operator must act
	case ch.down:
		level, text = slog.LevelWarn, "provider down: no proper answers"
	}
	c.cfg.Log.LogAttrs(ctx, level, text, slog.String("provider", c.cfg.Name), slog.String("reason", ch.reason))
}

// outcome returns the outcome for Observe.
func outcome(err error, fault *Error, t *trouble) string {
	switch {
	case err == nil:
		return "ok"
	case fault == nil:
		return "not_ready"
	case fault.Unknown:
		return "unknown"
	case t != nil && !t.refused:
		return "transport"
	}
	return fault.Class.String()
}
