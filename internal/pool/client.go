package pool

import (
	"context"
	"embed"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"poold/internal/captcha"

	"poold/internal/redisdb"
)

// client is the connection to Redis that all parts of a store share.
type client struct {
	keyspace

	db      *redisdb.DB
	scripts redisdb.Scripts
	log     *slog.Logger
}

type args = redisdb.Args

// script returns the script of a file in lua/.
func (c *client) script(name string) *redisdb.Script { return c.scripts.Get(name) }

// call executes a script on the slow client; see redisdb.DB.Call.
func (c *client) call(ctx context.Context, name string, keys any, a args, tail ...any) (*redisdb.Reply, error) {
	return c.db.Call(ctx, c.script(name), keys, a, tail...)
}

func (c *client) callNumber(ctx context.Context, name string, keys any, a args, tail ...any) (int64, error) {
	return c.db.CallNumber(ctx, c.script(name), keys, a, tail...)
}

// pipelined sends many calls of one script in one exchange; see redisdb.DB.Pipelined.
func (c *client) pipelined(ctx context.Context, name string, fill func(call redisdb.Add)) {
	c.db.Pipelined(ctx, c.script(name), fill)
}

// notifier reports changes of identities to the parts of the store and to other replicas.
type notifier struct {
	*client

	wake    func(captcha.ID) // makes this replica's queue call take.lua again for the pending callers
	changed func(captcha.ID) // Options.OnChange
	ended   func(Ref, string)
}

// wakeWaiters wakes this replica's queue of an identity and calls OnChange.
func (n *notifier) wakeWaiters(id captcha.ID) {
	n.wake(id)
	n.changed(id)
}

// listen handles the messages of the channel until ctx ends. A message names a changed identity,
// the key of a claim, or an ended order. A lost message causes only a delay, because queues and
// claims also poll.
func (n *notifier) listen(ctx context.Context) {
	n.db.Listen(ctx, func(message string) {
		id, rest, _ := strings.Cut(message, " ")
		n.wakeWaiters(captcha.ID(id))
		if order, how, ok := strings.Cut(rest, " "); ok {
			n.ended(Ref{Identity: captcha.ID(id), Order: order}, how)
		}
	})
}

// announce reports a change of an identity to this replica and to the other replicas.
func (n *notifier) announce(ctx context.Context, id captcha.ID) {
	n.changed(id)
	n.db.Announce(ctx, string(id))
}

//go:embed lua/*.lua
var sources embed.FS

// loadScripts loads the scripts in lua/. The scripts use only commands of Redis 6.2 that Redis 7.0
// and the embedded server also have. The argument endings is the maximum number of ended orders that
// Redis keeps per identity. Stores with the same maximum share the loaded scripts.
func loadScripts(endings int) redisdb.Scripts {
	if loaded, is := loadedScripts.Load(endings); is {
		return loaded.(redisdb.Scripts)
	}
	loaded, _ := loadedScripts.LoadOrStore(endings, redisdb.LoadScripts(sources, map[string]string{
		"LIMIT.endings": strconv.Itoa(endings), "LIMIT.endings_ms": strconv.FormatInt(endedKept.Milliseconds(), 10),
	}))
	return loaded.(redisdb.Scripts)
}

var loadedScripts sync.Map // int -> redisdb.Scripts
