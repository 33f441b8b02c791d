package pool

import (
	"strconv"
	"strings"
	"sync"
)

// scripts are the scripts in lua/. They use only commands that Redis 6.2, 7.0 and the
// embedded server share.
type scripts struct {
	named   map[string]*script // by the names of their files
	claim   claimScripts
	savings savingsScripts
	archive archiveScripts
}

// claimScripts are the steps of claims.go.
type claimScripts struct{ enter, hold, end *script }

// savingsScripts are the steps of savings.go.
type savingsScripts struct{ add, days *script }

// archiveScripts are the steps of archive.go and audit.go.
type archiveScripts struct{ add, lines *script }

// loadScripts loads every file that is not shared. endings is how many ends of orders are kept
// of an identity. Stores with the same number share the scripts.
func loadScripts(endings int) *scripts {
	if loaded, is := loadedScripts.Load(endings); is {
		return loaded.(*scripts)
	}
	limits := map[string]string{
		"LIMIT.endings": strconv.Itoa(endings), "LIMIT.endings_ms": strconv.FormatInt(endedKept.Milliseconds(), 10),
	}
	files, _ := sources.ReadDir("lua") // it is embedded
	all := map[string]*script{}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".lua")
		if text := source(file.Name()); !strings.HasPrefix(text, sharedFile) {
			all[name] = newScript(name, limits)
		}
	}
	loaded, _ := loadedScripts.LoadOrStore(endings, &scripts{
		named:   all,
		archive: archiveScripts{add: all["archive_add"], lines: all["archive_lines"]},
		claim:   claimScripts{enter: all["claim_enter"], hold: all["claim_hold"], end: all["claim_end"]},
		savings: savingsScripts{add: all["savings_add"], days: all["savings_days"]},
	})
	return loaded.(*scripts)
}

var loadedScripts sync.Map // int -> *scripts

// script returns the script of a file in lua/; it panics if there is none.
func (c *client) script(name string) *script {
	s := c.scripts.named[name]
	if s == nil {
		panic("pool: no script " + name + ".lua")
	}
	return s
}
