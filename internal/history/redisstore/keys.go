package redisstore

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"time"

	"poold/internal/redisdb"
)

//go:embed lua/*.lua
var sources embed.FS

var scripts = redisdb.LoadScripts(sources, nil)

// keys begin the names of the keys of records and entries, all in one slot. The package
// comment lists them.
type keys struct{ mark, alias, site, status, day, audit, usage string }

func keysOf(db *redisdb.DB) keys {
	return keys{
		mark: db.Prefix + ":solve:{history}:", alias: db.Prefix + ":alias:{history}:", site: db.Prefix + ":records:{history}:site:",
		status: db.Prefix + ":records:{history}:", day: db.Prefix + ":day:{history}:",
		audit: db.Prefix + ":audit:{history}:", usage: db.Prefix + ":usage:{history}:",
	}
}

// declare states the types of this package's keys.
func declare(db *redisdb.DB) {
	db.Declare(map[string]string{
		"records": "zset", "audit": "zset", "day": "hash", "usage": "hash", "solve": "string", "arrivals": "hash",
	})
}

// hashed replaces a text in the names of keys.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// dateOf is the UTC day of a moment.
func dateOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }
