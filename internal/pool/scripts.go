package pool

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the steps that must be atomic. They use only commands that
// Redis 6.2, 7.0 and the embedded server share.
type scripts struct {
	take, giveBack, look, flush, report *redis.Script
	retry, release                      *redis.Script
	standing                            standingScripts
	place, mark, submitted, unknown     *redis.Script
	settle, fail, find, adopt, renew    *redis.Script
	acquire, budget, warm, probe, beat  *redis.Script
	guest                               guestScripts
	claim                               claimScripts
	savings                             savingsScripts
	archive                             archiveScripts
	task                                taskScripts
	takeText                            string
}

// standingScripts are the steps of standing.go.
type standingScripts struct{ report, read, probe *redis.Script }

// guestScripts are the steps of guests.go and retire.go.
type guestScripts struct{ use, due, retire, leave, fold, folded, release, tally, row, check *redis.Script }

// claimScripts are the steps of claims.go.
type claimScripts struct{ enter, hold, end *redis.Script }

// taskScripts are the steps of tasks.go.
type taskScripts struct{ make, visit, hold, end *redis.Script }

// savingsScripts are the steps of savings.go.
type savingsScripts struct{ add, days *redis.Script }

// archiveScripts are the steps of archive.go and audit.go.
type archiveScripts struct{ add, lines *redis.Script }

// loadScripts reads them. most is how many ends of orders are kept of an identity.
func loadScripts(most int) scripts {
	common, journal, windows := source("common.lua"), endings(most)+source("journal.lua"), source("windows.lua")
	attempts := source("attempts.lua")
	take := common + "\n" + takeSource()
	script := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + source(name))
	}
	standing := func(name string) *redis.Script {
		return redis.NewScript(strings.Join([]string{common, source("standing.lua"), source(name)}, "\n"))
	}
	order := func(name string) *redis.Script {
		return redis.NewScript(common + "\n" + journal + "\n" + source(name))
	}
	guests, claims, savings := source("guests.lua"), source("claims.lua"), source("savings.lua")
	guest := func(name string) *redis.Script {
		return redis.NewScript(strings.Join([]string{common, journal, guests, source(name)}, "\n"))
	}
	ending := func(name string) *redis.Script {
		return redis.NewScript(strings.Join([]string{common, journal, attempts, source("untold.lua"), source(name)}, "\n"))
	}
	return scripts{
		take:      redis.NewScript(take),
		takeText:  take,
		place:     redis.NewScript(strings.Join([]string{common, journal, attempts, source("place.lua")}, "\n")),
		retry:     redis.NewScript(strings.Join([]string{common, attempts, source("retry.lua")}, "\n")),
		submitted: order("submitted.lua"),
		settle:    ending("settle.lua"),
		fail:      ending("fail.lua"),
		giveBack:  script("giveback.lua"),
		look:      redis.NewScript(strings.Join([]string{common, journal, windows, source("look.lua")}, "\n")),
		acquire:   standing("acquire.lua"),
		release:   standing("release.lua"),
		standing: standingScripts{
			report: standing("standing_report.lua"), read: standing("standing_read.lua"), probe: standing("standing_probe.lua"),
		},
		budget:  order("budget.lua"),
		mark:    order("mark.lua"),
		unknown: order("unknown.lua"),
		find:    order("find.lua"),
		adopt:   order("adopt.lua"),
		renew:   order("renew.lua"),
		flush:   script("flush.lua"),
		report:  script("report.lua"),
		beat:    script("beat.lua"),
		probe:   redis.NewScript(source("probe.lua")),
		warm:    redis.NewScript(strings.Join([]string{common, windows, source("warm.lua")}, "\n")),
		guest: guestScripts{
			use: script("guest_use.lua"), due: script("guest_due.lua"),
			retire: guest("guest_retire.lua"), leave: guest("guest_leave.lua"),
			fold: script("guest_fold.lua"), folded: guest("guest_folded.lua"), release: script("guest_release.lua"),
			tally: guest("guest_tally.lua"), row: script("guest_row.lua"), check: script("guest_check.lua"),
		},
		archive: archiveScripts{add: script("archive_add.lua"), lines: script("archive_lines.lua")},
		task: taskScripts{
			make: script("task_make.lua"), visit: script("task_visit.lua"), hold: script("task_hold.lua"), end: script("task_end.lua"),
		},
		claim: claimScripts{
			enter: redis.NewScript(strings.Join([]string{common, claims, savings, source("claim_enter.lua")}, "\n")),
			hold:  redis.NewScript(strings.Join([]string{common, claims, source("claim_hold.lua")}, "\n")),
			end:   redis.NewScript(strings.Join([]string{common, claims, source("claim_end.lua")}, "\n")),
		},
		savings: savingsScripts{
			add:  redis.NewScript(strings.Join([]string{common, savings, source("savings_add.lua")}, "\n")),
			days: redis.NewScript(strings.Join([]string{common, savings, source("savings_days.lua")}, "\n")),
		},
	}
}

// takeSource is take.lua without names. Each store of a program has the same.
var takeSource = sync.OnceValue(func() string { return resolveNames(source("take.lua")) })

// endings sets what journal.lua knows of the ends of orders.
func endings(most int) string {
	return fmt.Sprintf("local most_ended, ended_ttl = %d, %d\n", most, endedKept.Milliseconds())
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name)
	if err != nil {
		panic("pool: script missing from the binary: " + name)
	}
	return string(text)
}
