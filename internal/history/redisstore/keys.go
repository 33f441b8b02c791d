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

// keys contains the prefixes of the keys, which are all in one slot. The package comment lists the
// keys.
type keys struct{ mark, alias, site, status, day, audit, usage string }

func keysOf(db *redisdb.DB) keys {
	return keys{
		mark: db.Prefix + ":solve:{history}:", alias: db.Prefix + ":alias:{history}:", site: db.Prefix + ":records:{history}:site:",
		status: db.Prefix + ":records:{history}:", day: db.Prefix + ":day:{history}:",
		audit: db.Prefix + ":audit:{history}:", usage: db.Prefix + ":usage:{history}:",
	}
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// dateOf returns the UTC day of a time in the form 2006-01-02.
func dateOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }
