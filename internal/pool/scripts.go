package pool

import (
	"strconv"
	"sync"
)

// scripts are the steps that must be atomic. They use only commands that
// Redis 6.2, 7.0 and the embedded server share.
type scripts struct {
	take, giveBack, look, flush, report *script
	bind                                *script
	retry, release                      *script
	standing                            standingScripts
	place, mark, submitted, unknown     *script
	settle, fail, find, adopt, renew    *script
	acquire, budget, warm, probe, beat  *script
	guest                               guestScripts
	claim                               claimScripts
	savings                             savingsScripts
	archive                             archiveScripts
	task                                taskScripts
}

// standingScripts are the steps of standing.go.
type standingScripts struct{ report, read, probe *script }

// guestScripts are the steps of guests.go and retire.go.
type guestScripts struct{ use, count, due, retire, leave, fold, folded, release, tally, row, check *script }

// claimScripts are the steps of claims.go.
type claimScripts struct{ enter, hold, end *script }

// taskScripts are the steps of tasks.go.
type taskScripts struct{ make, visit, hold, end *script }

// savingsScripts are the steps of savings.go.
type savingsScripts struct{ add, days *script }

// archiveScripts are the steps of archive.go and audit.go.
type archiveScripts struct{ add, lines *script }

// loadScripts loads them. most is how many ends of orders are kept of an identity. Stores with
// the same number share the scripts.
func loadScripts(most int) *scripts {
	if loaded, is := loadedScripts.Load(most); is {
		return loaded.(*scripts)
	}
	limits := map[string]string{
		"LIMIT.endings": strconv.Itoa(most), "LIMIT.endings_ms": strconv.FormatInt(endedKept.Milliseconds(), 10),
	}
	script := func(name string) *script { return newScript(name, limits) }
	all := &scripts{
		take: script("take"), giveBack: script("giveback"), look: script("look"), flush: script("flush"), report: script("report"),
		bind: script("bind"), place: script("place"), mark: script("mark"), submitted: script("submitted"), unknown: script("unknown"),
		settle: script("settle"), fail: script("fail"), retry: script("retry"), find: script("find"), adopt: script("adopt"),
		renew: script("renew"), acquire: script("acquire"), release: script("release"), budget: script("budget"),
		beat: script("beat"), probe: script("probe"), warm: script("warm"),
		standing: standingScripts{report: script("standing_report"), read: script("standing_read"), probe: script("standing_probe")},
		guest: guestScripts{
			use: script("guest_use"), count: script("guest_count"), due: script("guest_due"), fold: script("guest_fold"),
			release: script("guest_release"), retire: script("guest_retire"), leave: script("guest_leave"),
			folded: script("guest_folded"), tally: script("guest_tally"), row: script("guest_row"), check: script("guest_check"),
		},
		archive: archiveScripts{add: script("archive_add"), lines: script("archive_lines")},
		task:    taskScripts{make: script("task_make"), visit: script("task_visit"), hold: script("task_hold"), end: script("task_end")},
		claim:   claimScripts{enter: script("claim_enter"), hold: script("claim_hold"), end: script("claim_end")},
		savings: savingsScripts{add: script("savings_add"), days: script("savings_days")},
	}
	loaded, _ := loadedScripts.LoadOrStore(most, all)
	return loaded.(*scripts)
}

var loadedScripts sync.Map // int -> *scripts
