package pool

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// scripts are the steps that must be atomic. They use only commands that
// Redis 6.2, 7.0 and the embedded server share.
type scripts struct {
	take, giveBack, look, flush, report *redis.Script
	place, mark, submitted, unknown     *redis.Script
	settle, fail, find, adopt, renew    *redis.Script
	reserve, budget, warm, probe        *redis.Script
	takeText                            string
}

func loadScripts() scripts {
	common, journal, windows := source("common.lua"), source("journal.lua"), source("windows.lua")
	script := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + source(name))
	}
	order := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + journal + "\n" + source(name))
	}
	return scripts{
		take:      script("take.lua"),
		takeText:  common + "\n" + source("take.lua"),
		place:     order("place.lua"),
		submitted: order("submitted.lua"),
		settle:    order("settle.lua"),
		fail:      order("fail.lua"),
		giveBack:  script("giveback.lua"),
		look:      redis.NewScript(strings.Join([]string{common, journal, windows, source("look.lua")}, "\n")),
		reserve:   script("reserve.lua"),
		budget:    order("budget.lua"),
		mark:      order("mark.lua"),
		unknown:   order("unknown.lua"),
		find:      order("find.lua"),
		adopt:     order("adopt.lua"),
		renew:     order("renew.lua"),
		flush:     script("flush.lua"),
		report:    script("report.lua"),
		probe:     redis.NewScript(source("probe.lua")),
		warm:      redis.NewScript(strings.Join([]string{common, windows, source("warm.lua")}, "\n")),
	}
}

// once is a command that go-redis does not send again by itself.
type once struct{ *redis.Cmd }

// NoRetry is what go-redis asks before it does.
func (once) NoRetry() bool { return true }

// takeOnce runs take.lua one time, so that the caller learns of each lost answer.
// Where Redis does not know the script, its text is sent along.
func (s *Store) takeOnce(limit time.Duration, keys []string, args []any) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", s.scripts.take.Hash(), len(keys))
	for _, key := range keys {
		command = append(command, key)
	}
	command = append(command, args...)
	call := once{redis.NewCmd(ctx, command...)}
	if err := s.hot.Process(ctx, call); redis.HasErrorPrefix(err, "NOSCRIPT") {
		command[0], command[1] = "eval", s.scripts.takeText
		call = once{redis.NewCmd(ctx, command...)}
		_ = s.hot.Process(ctx, call) // the call has its error
	}
	return call.StringSlice()
}

// types are the types of the keys that another type makes scripts fail at, by the
// word behind the prefix.
var types = map[string]string{
	"pool": "list", "rate": "list", "last": "list", "leads": "list", "verdicts": "list",
	"orders": "zset", "leases": "zset", "spend": "zset", "tickets": "zset", "seen": "zset", "values": "zset",
	"warm": "zset", "places": "zset", "journal": "hash", "stats": "hash", "once": "string", "sold": "string",
}

// explain names the key over which a script failed, where it holds another
// program's value.
func (s *Store) explain(ctx context.Context, err error, keys []string) error {
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	for _, key := range keys {
		word, _, _ := strings.Cut(strings.TrimPrefix(key, s.prefix+":"), ":")
		found, unread := s.slow.Type(ctx, key).Result()
		if want := types[word]; unread == nil && found != "none" && want != "" && found != want {
			return fmt.Errorf("the key %s holds a %s where a %s belongs; delete or rename it: %w", key, found, want, err)
		}
	}
	return err
}

func source(name string) string {
	text, err := sources.ReadFile(name)
	if err != nil {
		panic("pool: script missing from the binary: " + name)
	}
	return string(text)
}
