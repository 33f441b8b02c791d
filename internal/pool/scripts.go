package pool

import (
	"embed"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the steps that must be atomic. They use only commands that
// Redis 6.2, 7.0 and the embedded server share.
type scripts struct {
	take, giveBack, look, flush, report *redis.Script
	bind                                *redis.Script
	retry, release                      *redis.Script
	standing                            standingScripts
	place, mark, submitted, unknown     *redis.Script
	settle, fail, find, adopt, renew    *redis.Script
	acquire, budget, warm, beat         *redis.Script
	guest                               guestScripts
	takeText                            string
}

// standingScripts are the steps of standing.go.
type standingScripts struct{ report, read, probe *redis.Script }

// guestScripts are the steps of guests.go and retire.go.
type guestScripts struct{ use, count, due, retire, leave, fold, folded, release, tally, row, check *redis.Script }

// loadScripts reads them. most is how many ends of orders are kept of an identity. Each script
// is the prelude, what it shares with others, and its own file.
func loadScripts(most int) scripts {
	script := func(name string, shared ...string) *redis.Script {
		text := prelude()
		for _, part := range append(shared, name) {
			if part == luaJournal {
				text += "\n" + endings(most)
			}
			text += "\n" + redisdb.Source(sources, part)
		}
		return redis.NewScript(text)
	}
	take := prelude() + "\n" + takeSource()
	return scripts{
		take: redis.NewScript(take), takeText: take, giveBack: script("giveback"),
		look: script("look", luaJournal, luaWindows), flush: script("flush"), report: script("report"), bind: script("bind"),
		place: script("place", luaJournal, luaAttempts), mark: script("mark", luaJournal),
		submitted: script("submitted", luaJournal), unknown: script("unknown", luaJournal),
		settle: script("settle", luaJournal, luaAttempts, luaUntold), fail: script("fail", luaJournal, luaAttempts, luaUntold), retry: script("retry", luaAttempts),
		find: script("find", luaJournal), adopt: script("adopt", luaJournal), renew: script("renew", luaJournal),
		acquire: script("acquire", luaStanding), release: script("release", luaStanding), budget: script("budget", luaJournal),
		standing: standingScripts{
			report: script("standing_report", luaStanding), read: script("standing_read"), probe: script("standing_probe", luaStanding),
		},
		beat: script("beat"), warm: script("warm", luaWindows),
		guest: guestScripts{
			use: script("guest_use"), count: script("guest_count"), due: script("guest_due"), fold: script("guest_fold"), release: script("guest_release"),
			retire: script("guest_retire", luaJournal, luaGuests), leave: script("guest_leave", luaJournal, luaGuests),
			folded: script("guest_folded", luaJournal, luaGuests), tally: script("guest_tally", luaJournal, luaGuests),
			row: script("guest_row"), check: script("guest_check"),
		},
	}
}

// The files that scripts share, without their ending.
const (
	luaAttempts = "attempts"
	luaGuests   = "guests"
	luaJournal  = "journal"
	luaStanding = "standing"
	luaUntold   = "untold"
	luaWindows  = "windows"
)

// takeSource is take.lua without names. Each store of a program has the same.
var takeSource = sync.OnceValue(func() string { return resolveNames(redisdb.Source(sources, "take")) })

// prelude is the text that every script of this package begins with.
func prelude() string { return redisdb.General() + "\n" + redisdb.Source(sources, "common") }

// endings sets what journal.lua knows of the ends of orders.
func endings(most int) string {
	return fmt.Sprintf("local most_ended, ended_ttl = %d, %d\n", most, endedKept.Milliseconds())
}
