package pool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Config configures a Pool.
type Config struct {
	Slow    redis.UniversalClient
	Fast    redis.UniversalClient // for takes, cancels and beats: orders that wait for a connection must not hold them up
	Prefix  string                // of every key
	Replica string                // a name that no earlier process had
	Log     *slog.Logger
	// Beat is the pause between two beats; 0 = 1 s. A replica that misses five beats is dead: its tickets are dropped, and
	// other replicas take over its orders.
	Beat time.Duration
	// Away returns an error while Redis is known to be away, without a call to Redis. If the function is nil, the Pool
	// always tries Redis.
	Away func() error
	// Money adds the currency to an amount of money. If the function is nil, amounts have no currency.
	Money func(amount string) string
	// Outbox limits the rows of each stream that wait for the sink; 0 means 100,000. Further rows are dropped and counted.
	Outbox int
	// Changed is called when a decision about an identity is due, because a script of this replica changed something about
	// it. The function must not block. If it is nil, this replica makes no decisions.
	Changed func(captcha.ID)
}

// Pool reads and changes what the replicas share in Redis. It is safe for concurrent use.
type Pool struct {
	Replica string

	c          Config        // with its defaults
	tag        string        // {captcha}:
	closing    chan struct{} // closed by EndWaits
	close      sync.Once
	live       atomic.Pointer[[]string]      // the replicas of the last beat
	ahead      atomic.Pointer[time.Duration] // of Redis' clock, as of the last beat that was answered fast
	stuck      atomic.Pointer[string]        // see SetStuck
	compiled   map[*script]*redis.Script
	waiters    waiters
	background atomic.Int64  // goroutines that end calls
	cancels    chan struct{} // an element for each call that could not be ended yet
	ended      chan struct{} // closed a while after the end of Run, if calls are left
}

// New returns a Pool. It does no I/O.
func New(c Config) *Pool {
	c.Beat = cmp.Or(c.Beat, time.Second)
	if c.Away == nil {
		c.Away = func() error { return nil }
	}
	if c.Changed == nil {
		c.Changed = func(captcha.ID) {}
	}
	if c.Money == nil {
		c.Money = func(amount string) string { return amount }
	}
	p := &Pool{
		Replica: c.Replica, c: c, tag: "{" + c.Prefix + "}:", closing: make(chan struct{}),
		compiled: map[*script]*redis.Script{}, cancels: make(chan struct{}, mostCancels), ended: make(chan struct{}),
	}
	p.waiters.of = map[string][]chan struct{}{}
	p.live.Store(new([]string))
	p.stuck.Store(new(string))
	placeholders := strings.NewReplacer("@", p.tag, "DEAD", strconv.FormatInt((5*c.Beat).Milliseconds(), 10),
		"NOTED", "'"+strings.Join(noted, "', '")+"'", "ROWS", strconv.Itoa(cmp.Or(c.Outbox, 100_000)))
	for _, s := range scripts {
		p.compiled[s] = redisdb.NewScript(placeholders.Replace(s.text))
	}
	return p
}

// Run beats and receives wake-ups until ctx ends, and then waits until the calls that are being cancelled have ended.
// After each beat it calls the function beaten with the orders whose deadline has passed.
func (p *Pool) Run(ctx context.Context, beaten func(late []string)) error {
	defer func() {
		// Cancellations get this much more time: a token whose reply was lost returns only by a cancellation.
		last := time.AfterFunc(cancelFor, func() { close(p.ended) })
		p.settle()
		last.Stop()
	}()
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { p.listen(ctx) })
	for {
		limited, stop := context.WithTimeout(ctx, p.c.Beat)
		late, err := p.Beat(limited)
		stop()
		if err == nil {
			beaten(late)
		}
		if backoff.Sleep(ctx, p.c.Beat) != nil {
			return nil
		}
	}
}

// settle waits until no cancellation runs in the background.
func (p *Pool) settle() {
	for p.background.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// EndWaits ends the waits of all calls with ErrClosed, because this replica stops.
func (p *Pool) EndWaits() { p.close.Do(func() { close(p.closing) }) }

// Live returns the names of the replicas that lived at the last beat of this replica; nil = unknown.
func (p *Pool) Live() []string { return *p.live.Load() }

// SetStuck sets the providers that now bring no tokens, not even for orders in flight. Decisions of this replica do not
// count the orders in flight at such a provider. SetStuck reports whether the list has changed.
func (p *Pool) SetStuck(providers []string) (changed bool) {
	list := ""
	if len(providers) > 0 {
		list = " " + strings.Join(providers, " ") + " "
	}
	return *p.stuck.Swap(&list) != list
}

// Leave notes that this replica stops. Other replicas take over its orders at once, and its tickets no longer count.
func (p *Pool) Leave(ctx context.Context) error {
	return p.pipelined(ctx, func(pipe redis.Pipeliner) {
		pipe.ZAdd(ctx, p.key("replicas"), redis.Z{Score: 0, Member: p.Replica})
	})
}

// waiters has the waiting calls of this replica by name. Requests with the same Idempotency-Key share a name.
type waiters struct {
	mu sync.Mutex
	of map[string][]chan struct{}
}

// add registers a call. It must come before the first take of the call, so that no wake-up is missed.
func (w *waiters) add(call string, waits bool) (woken <-chan struct{}, stop func()) {
	if !waits {
		return nil, func() {}
	}
	c := make(chan struct{}, 1)
	w.mu.Lock()
	w.of[call] = append(w.of[call], c)
	w.mu.Unlock()
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.of[call] = slices.DeleteFunc(w.of[call], func(other chan struct{}) bool { return other == c })
		if len(w.of[call]) == 0 {
			delete(w.of, call)
		}
	}
}

func (w *waiters) has(call string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of[call]) > 0
}

func (w *waiters) wake(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.of[call] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// listen receives the names of calls from scripts, and wakes these calls. If the connection is lost, waiting calls ask
// again by themselves.
func (p *Pool) listen(ctx context.Context) {
	channel := p.c.Slow.Subscribe(ctx, p.key("wake", p.Replica))
	defer func() { _ = channel.Close() }()
	messages := channel.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			p.waiters.wake(m.Payload)
		}
	}
}

// counterID returns the ID under which the counters of an identity are kept.
func counterID(id captcha.ID) captcha.ID {
	if _, guest := IdentityOf(id); guest {
		return Guests
	}
	return id
}

// stats returns the key of the counters of an identity.
func (p *Pool) stats(id captcha.ID) string { return p.key("stats", counterID(id)) }

// key returns a key: the tag, the kind and the parts, joined by colons.
func (p *Pool) key(kind string, parts ...any) string {
	var b strings.Builder
	b.WriteString(p.tag)
	b.WriteString(kind)
	for _, part := range parts {
		fmt.Fprintf(&b, ":%v", part)
	}
	return b.String()
}

// pipelined runs plain commands in one exchange. A missing key is not an error. After an error the results are
// zero.
func (p *Pool) pipelined(ctx context.Context, add func(pipe redis.Pipeliner)) error {
	pipe := p.c.Slow.Pipeline()
	add(pipe)
	ctx, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	if err := p.c.Away(); err != nil {
		return err
	}
	if _, err := pipe.Exec(ctx); !errors.Is(err, redis.Nil) {
		return redisdb.Down(err)
	}
	return nil
}

// now returns the time on Redis' clock.
func (p *Pool) now(ctx context.Context) (time.Time, error) {
	var clock *redis.TimeCmd
	err := p.pipelined(ctx, func(pipe redis.Pipeliner) { clock = pipe.Time(ctx) })
	return clock.Val(), err
}

// fields is a hash as Redis returned it. An absent field is empty or 0.
type fields map[string]string

func fieldsOf(v any) fields {
	list, _ := v.([]any)
	f := fields{}
	for i := 0; i+1 < len(list); i += 2 {
		f[text(list[i])] = text(list[i+1])
	}
	return f
}

func (f fields) int(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64)
	return n
}

// list reads a field with numbers and commas.
func (f fields) list(name string) (list []int64) {
	for word := range strings.SplitSeq(f[name], ",") {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// counters reads the fields of Counters. The field in Redis is the name of the Go field in lower case.
func (f fields) counters() (c Counters) {
	for field, at := range reflect.ValueOf(&c).Elem().Fields() {
		at.SetInt(f.int(strings.ToLower(field.Name)))
	}
	return c
}

// digest returns a short hash of a text.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

// clean replaces |, which separates the parts of stored texts.
func clean(s string) string { return strings.ReplaceAll(s, "|", " ") }

// cut shortens a reason to 500 bytes.
func cut(s string) string {
	if len(s) <= 500 {
		return s
	}
	return strings.ToValidUTF8(s[:500], "") + "…"
}
