package provider

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/targets"
)

const (
	usualPoll  = 5 * time.Second  // pause between two polls, as most services recommend it
	longWindow = 15 * time.Minute // for reports at 2captcha and its copies
	callLimit  = 10 * time.Second // timeout of one call, from dialling to the last byte of the response
	longCode   = 100              // maximum length of an unknown error code in logs and errors, in characters
	maxThreads = 1 << 20          // highest number of threads that is accepted as valid
)

// Client makes calls to one account at one solving service. All methods are safe for concurrent
// use.
type Client struct {
	cfg      targets.Provider
	observe  func(action, outcome string)
	protocol protocol
	profile  profile
	wire     http.RoundTripper
	limit    time.Duration           // timeout of one call; callLimit except in tests
	money    atomic.Pointer[float64] // the balance that was read last
	done     sync.Map                // task → Solution of a submit that was answered with it, until SolvedAtOnce
}

// The interface protocol makes the requests and parses the replies of one protocol.
type protocol interface {
	// The method submit returns an error if the protocol cannot express the parameters.
	submit(r Submission) (query, error)
	// The method ask returns a call with another action. The task is "" if the action concerns the account.
	ask(action, task string, t captcha.Type, accepted bool) (q query, offered bool)
	// The method pace returns how long to wait before the first poll of a task, and between polls.
	pace(t captcha.Type) (firstPoll, interval time.Duration)
	// The method reportWindow returns how long after a solve the service accepts a report about its token. A protocol
	// without reports may return any time: its method ask offers none.
	reportWindow() time.Duration
	// The method read parses the reply to a call. The error has the type malformedReply. If it is unexpectedReply,
	// the caller considers the HTTP status.
	read(q query, reply []byte) (answer, error)
}

// protocolOf returns the protocol of a provider of a valid file.
func protocolOf(p targets.Provider) protocol {
	plain := inPHP{key: p.Key, profile: profile(p.Service)}
	return map[targets.Protocol]protocol{
		targets.ProtocolInPHP:      plain,
		targets.ProtocolCreateTask: createTask{key: p.Key, profile: profile(p.Service)},
		targets.ProtocolSimulated:  quick{plain},
	}[p.Protocol]
}

// quick is the protocol of the simulated provider, which solves quickly.
type quick struct{ inPHP }

func (quick) pace(captcha.Type) (firstPoll, interval time.Duration) {
	return 2 * time.Second, time.Second
}

// query is one call to the service, before it is sent.
type query struct {
	path, contentType, body string

	action   string
	identity captcha.Identity // for submits and polls: the identity of the task
	hide     []captcha.Secret // secrets that no text of an error may contain: the key, the callback's and the proxy's
}

// answer is the parsed content of a reply of any protocol.
type answer struct {
	code     string        // the service's error code, unchanged; "" = the service did not refuse the call
	notReady bool          // polls only
	text     string        // the task's id, or the token
	extra    captcha.Extra // polls only
	expires  time.Time     // polls only; zero = unknown
	done     *Solution     // submits only: the service has solved the task at once

	number     float64       // the balance, or the number of threads
	retryAfter time.Duration // set only for a refusal with HTTP 429
}

// New returns a client of an account of a valid file. It starts no goroutine and makes no call to the service.
// The transport carries the calls; nil = the network. The client calls observe after every call to the service.
// The action is submit, poll, threads, balance or report. The outcome is ok, not_ready, capacity, account,
// parameters, task, transport or unknown. The function must not block.
func New(p targets.Provider, transport http.RoundTripper, observe func(action, outcome string)) *Client {
	c := &Client{cfg: p, observe: observe, profile: profile(p.Service), protocol: protocolOf(p), wire: transport,
		limit: callLimit}
	if transport == nil {
		c.wire = newTransport()
	}
	return c
}

// Pace returns how long to wait from the submission of a task to its first poll, and between polls: as the file says,
// or as the service recommends. Services discourage polling more often.
func Pace(p targets.Provider, t captcha.Type) (firstPoll, interval time.Duration) {
	return (&Client{cfg: p, protocol: protocolOf(p)}).Pace(t)
}

// Name returns the name in the file.
func (c *Client) Name() string { return c.cfg.Name }

// Timeout returns the age at which the caller gives up a task.
func (c *Client) Timeout() time.Duration { return c.cfg.Timeout }

// Pace returns the Pace of the client's provider.
func (c *Client) Pace(t captcha.Type) (firstPoll, interval time.Duration) {
	firstPoll, interval = c.protocol.pace(t)
	return cmp.Or(c.cfg.FirstPoll, firstPoll), cmp.Or(c.cfg.PollInterval, interval)
}

// Submit buys one task and returns its id. A task with a callback can be polled too. The error is an
// *Error, or the error of ctx if ctx ended before the request was sent. Error.Unknown means that the
// task may have been bought. Submit does not keep the bytes of the picture after it returns.
func (c *Client) Submit(ctx context.Context, r Submission) (task string, err error) {
	q, err := c.protocol.submit(r)
	if err == nil && r.Identity.Type == captcha.Image && len(r.Image) == 0 {
		err = errors.New("the picture's bytes are missing")
	}
	if err != nil {
		return "", &Error{Class: Parameters, Code: NotAsked, Err: err}
	}
	if r.CallbackURL != "" { // a service may quote it, or only the secret at its end
		q.hide = []captcha.Secret{captcha.Secret(r.CallbackURL), captcha.Secret(path.Base(r.CallbackURL))}
	}
	a, err := c.call(ctx, submit, q, r.Identity)
	if a.done != nil {
		c.done.Store(a.text, *a.done)
	}
	return a.text, err
}

// SolvedAtOnce returns the solution if the service answered Submit with it. It returns each solution only once.
func (c *Client) SolvedAtOnce(task string) (s Solution, is bool) {
	done, is := c.done.LoadAndDelete(task)
	s, _ = done.(Solution)
	return s, is
}

// Poll requests the token of a task that was bought for the given identity. The error is
// ErrNotReady, an *Error, or the error of ctx.
func (c *Client) Poll(ctx context.Context, task string, id captcha.Identity) (Solution, error) {
	q, _ := c.protocol.ask(poll, task, id.Type, false)
	a, err := c.call(ctx, poll, q, id)
	return Solution{a.text, a.extra, a.expires}, err
}

// Threads requests the maximum number of tasks that the account may have in flight. If the service
// does not offer this call, Threads returns ok = false and no error.
func (c *Client) Threads(ctx context.Context) (total int, ok bool, err error) {
	q, offered := c.protocol.ask(threads, "", "", false)
	if !offered {
		return 0, false, nil
	}
	a, err := c.call(ctx, threads, q, captcha.Identity{})
	switch {
	case err != nil:
		return 0, true, err
	case a.number < 0 || a.number > maxThreads || a.number != math.Trunc(a.number):
		return 0, true, &Error{Class: Task, Code: "odd_thread_count"}
	}
	return int(a.number), true, nil
}

// Balance returns the last balance that was read; nil = none yet.
func (c *Client) Balance() *float64 { return c.money.Load() }

// ReadBalance requests the balance of the account. It does nothing if the file switches that off.
func (c *Client) ReadBalance(ctx context.Context) error {
	if !c.cfg.Balance {
		return nil
	}
	q, offered := c.protocol.ask(balance, "", "", false)
	if !offered {
		return nil
	}
	a, err := c.call(ctx, balance, q, captcha.Identity{})
	if err == nil {
		c.money.Store(&a.number)
	}
	return err
}

// Close closes idle connections. It does not interrupt calls in flight.
func (c *Client) Close() {
	if t, ok := c.wire.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// The actions that are observed.
const (
	submit  = "submit"
	poll    = "poll"
	threads = "threads"
	balance = "balance"
	report  = "report"
)

// call makes one call to the service.
func (c *Client) call(ctx context.Context, action string, q query, id captcha.Identity) (answer, error) {
	q.action, q.identity = action, id
	q.hide = append(q.hide, c.cfg.Key, id.Proxy)
	if p, ok := captcha.SplitProxy(id.Proxy); ok {
		q.hide = append(q.hide, captcha.Secret(p.Password))
	}
	a, err := c.exchange(ctx, q)
	if err == nil {
		err = c.refusal(a, q)
	}
	outcome := "ok"
	var fault *Error
	switch {
	case err == nil:
	case errors.Is(err, ErrNotReady):
		outcome = "not_ready"
	case !errors.As(err, &fault):
		return answer{}, err // the caller cancelled before the outcome of the call was known
	case fault.Unknown:
		outcome = "unknown"
	case fault.broken:
		outcome = "transport"
	default:
		outcome = fault.Class.String()
	}
	if fault != nil && fault.Class == Capacity {
		fault.Delay += backoff.UpTo(fault.Delay / 5) // so that replicas do not retry at the same moment
	}
	c.observe(action, outcome)
	if err != nil {
		return answer{}, err
	}
	return a, nil
}

// refusal returns an error if a proper answer refuses the call, and nil otherwise.
func (c *Client) refusal(a answer, q query) error {
	if a.notReady {
		return ErrNotReady
	}
	if a.code == "" {
		return nil
	}
	e := c.profile.asError(a.code, q.hide...)
	if a.retryAfter > 0 && e.Class != Account {
		e.Class = Capacity // HTTP 429 overrides the class of the code
	}
	e.Delay = max(e.Delay, a.retryAfter)
	return e
}
