// Package notify posts events to the webhook of the section notify. The replicas of an installation take turns: one at
// a time reads the list of package events and posts new events. But when Redis is down for a replica, this replica
// itself posts that, and later posts that Redis is up again.
//
// # Keys
//
//	{PREFIX}:notify    string  the replica that posts, for leaseLife
//	{PREFIX}:notified  string  id of the last event that was posted or skipped
//
// # Invariants
//
//   - One replica posts at a time. An event is posted twice only if the sending replica dies before it has stored the
//     id of the event.
//   - An event is posted until the webhook accepts or refuses it, or the event is an hour old.
//   - No log has more of the URL than its host.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"poold/internal/backoff"
	"poold/internal/events"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

const (
	// postLimit limits a request.
	postLimit = 10 * time.Second
	// leaseLife is how long a replica may post without renewing its lease. It exceeds the time between two renewals, which
	// is little more than postLimit.
	leaseLife = 15 * time.Second
	// every is the interval at which a replica looks for new events in the list.
	every = 2 * time.Second
	// oldest is the maximum age of an event that is posted; older events are skipped.
	oldest = time.Hour
	// downAfter is how long Redis is away before its outage is posted.
	downAfter = 10 * time.Second
)

// retries are the pauses between two attempts to post.
var retries = backoff.Doubling{First: time.Second, Most: time.Minute}

// transport makes the requests. Unlike an http.Client, it follows no redirect, and its errors do not contain the URL.
var transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}

// claim takes or extends the lease, and moves the cursor, which is the id of the last posted event. If there is no
// cursor, the script sets it to 10 s ago, so that the event RedisLost is posted.
//
//	KEYS   the lease, the cursor
//	ARGV   the replica; the life of the lease in ms; the id of the last event, or 0
//	Reply  the cursor; empty = another replica has the lease
var claim = redisdb.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return '' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local t = redis.call('TIME')
local cursor = math.max(tonumber(redis.call('GET', KEYS[2]) or t[1] * 1000000 + t[2] - 10000000), tonumber(ARGV[3]))
redis.call('SET', KEYS[2], string.format('%.0f', cursor))
return string.format('%.0f', cursor)`)

// Notifier posts events. Apply is safe for concurrent use.
type Notifier struct {
	Events  *events.Log
	DB      *redisdb.DB
	Replica string // ID of this one
	Version string // of the daemon
	Log     *slog.Logger

	section atomic.Pointer[targets.Notify] // nil = Apply was not called yet
	trouble atomic.Pointer[string]         // nil = none; see Trouble

	// Only Run uses these fields.
	used     *targets.Notify
	failures int       // attempts since the last success
	next     time.Time // of the next attempt
	told     time.Time // begin of the outage of Redis that was posted last
}

// Apply replaces the section of the file.
func (n *Notifier) Apply(s targets.Notify) { n.section.Store(&s) }

// Trouble returns a sentence, without a full stop, that says since when and why this replica's posts fail; "" = they do
// not fail.
func (n *Notifier) Trouble() string { return *cmp.Or(n.trouble.Load(), new("")) }

// Run posts until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	for backoff.Sleep(ctx, every) == nil {
		if s := n.section.Load(); s != n.used {
			n.used, n.failures, n.next = s, 0, time.Time{}
			n.trouble.Store(nil)
		}
		if n.used != nil && n.used.URL != "" {
			n.turn(ctx)
		}
	}
	return nil
}

// turn posts new events.
func (n *Notifier) turn(ctx context.Context) {
	if h := n.DB.Health(); !h.Up {
		consequence := "no token is handed out and nothing is bought; repair Redis, or correct redis in the file"
		if h.Full {
			consequence = "ready tokens are handed out, and nothing is bought; raise maxmemory, or free memory"
		}
		if h.Since != n.told && time.Since(h.Since) >= downAfter && n.postOwn(ctx, events.RedisDown, h.Since,
			"since "+h.Since.UTC().Format("15:04:05")+" UTC "+h.Reason+": "+consequence) {
			n.told = h.Since
		}
		return
	}
	if !n.told.IsZero() {
		outage := time.Since(n.told).Round(time.Second)
		if !n.postOwn(ctx, events.RedisUp, time.Now(), "Redis serves again, after "+outage.String()) {
			return
		}
		n.told = time.Time{}
	}
	cursor := n.claim(ctx, "0")
	if cursor == "" {
		return
	}
	list, _ := n.Events.Recent(ctx) // without an answer, the next turn asks again
	for _, e := range slices.Backward(list) {
		isNew := e.ID > cursor && e.Kind != events.RedisUp // ids have as many digits
		if isNew && time.Since(e.At) < oldest && !n.post(ctx, e) || isNew && n.claim(ctx, e.ID) == "" {
			return
		}
	}
}

// postOwn posts an event about this replica that the list of events does not contain.
func (n *Notifier) postOwn(ctx context.Context, kind events.Kind, at time.Time, text string) bool {
	return n.post(ctx, events.Event{
		ID: strconv.FormatInt(at.UnixMicro(), 10), At: at.UTC().Truncate(time.Millisecond), Kind: kind,
		Actor: events.ReplicaActor(n.Replica), Text: "Replica " + n.Replica + ": " + text + ".",
	})
}

// claim takes the lease and returns the cursor; "" = another replica has the lease, or Redis does not answer.
func (n *Notifier) claim(ctx context.Context, last string) string {
	keys := []string{"{" + n.DB.Prefix + "}:notify", "{" + n.DB.Prefix + "}:notified"}
	cursor, _ := claim.Run(ctx, n.DB.Slow, keys, n.Replica, leaseLife.Milliseconds(), last).Text()
	return cursor
}

// post posts an event of a wanted kind, unless it is too early for another attempt. It returns true if the event needs
// no further attempt.
func (n *Notifier) post(ctx context.Context, e events.Event) bool {
	if !slices.Contains(n.used.Kinds, string(e.Kind)) || time.Now().Before(n.next) {
		return !slices.Contains(n.used.Kinds, string(e.Kind))
	}
	status, err := n.send(ctx, e)
	address, _ := url.Parse(n.used.URL.Reveal()) // a valid one
	log := n.Log.With("address", address.Host, "event", e.Text, "err", err)
	switch {
	case err == nil:
		n.failures = 0
		n.trouble.Store(nil)
	case status/100 == 4 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		log.Warn("the webhook refuses a notification, which is dropped: correct notify")
	case ctx.Err() == nil:
		if n.failures++; n.failures == 1 {
			log.Warn("a notification is not delivered; it is tried again for an hour")
			n.trouble.Store(new(fmt.Sprintf("Since %s UTC the webhook at %s takes no events (%v), "+
				"which are tried again for an hour: repair it, or correct notify",
				time.Now().UTC().Format("15:04"), address.Host, err)))
		}
		n.next = time.Now().Add(retries.Pause(n.failures))
		return false
	}
	return ctx.Err() == nil
}

// send makes one request to the webhook. The status is 0 if no answer came.
func (n *Notifier) send(ctx context.Context, e events.Event) (status int, err error) {
	if time.Since(e.At) > 15*time.Second {
		e.Text += " (this was at " + e.At.UTC().Format(time.TimeOnly) + " UTC)"
	}
	body, _ := json.Marshal(e) // of texts and a time: no error is possible
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	// no error is possible, because package targets has checked the URL
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, n.used.URL.Reveal(), bytes.NewReader(body))
	mac := hmac.New(sha256.New, []byte(n.used.Secret))
	mac.Write(body)
	r.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"poold/" + n.Version},
		"X-Request-Id": {e.ID}}
	if n.used.Secret != "" {
		r.Header.Set("X-Poold-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		err = fmt.Errorf("HTTP status %d", answer.StatusCode)
	}
	return answer.StatusCode, err
}
