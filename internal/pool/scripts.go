package pool

import (
	"embed"
	"strconv"
	"sync"

	"poold/internal/redisdb"
)

//go:embed lua/*.lua
var sources embed.FS

// loadScripts loads the scripts in lua/. They use only commands that Redis 6.2, 7.0 and the
// embedded server share. endings is how many ends of orders are kept of an identity. Stores
// with the same number share the scripts.
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
