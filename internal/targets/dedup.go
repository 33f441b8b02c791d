package targets

import (
	"net/url"

	"poold/internal/captcha"
)

// DedupBackend is the store of the claims on shared solves.
type DedupBackend string

// The values of `dedup.backend`.
const (
	DedupRedis    DedupBackend = "redis"
	DedupPostgres DedupBackend = "postgres"
)

// Dedup is the section dedup of pools.yaml. A change of this section needs a restart.
type Dedup struct {
	Backend DedupBackend   `key:"backend" words:"redis postgres" default:"redis" doc:"redis: the server of the section redis; postgres: the database of url."`
	URL     captcha.Secret `key:"url" as:"postgres" doc:"Address of the database, beginning with postgres://. Required with postgres."`
}

func (d *Dedup) check(e entry) {
	switch at := e.firstEntry("url"); {
	case e.hasInvalid("backend", "url"):
	case d.Backend == DedupPostgres && d.URL == "":
		at.fail("is required with backend: postgres, as postgres://USER:PASSWORD@HOST/DATABASE%s", at.remedy())
	case d.Backend == DedupRedis && d.URL != "":
		at.fail("belongs to backend: postgres: remove it, or set backend")
	}
}

// postgresURL parses the address of a PostgreSQL database. The address may be empty. No message
// quotes the address, because it may contain a password.
func postgresURL(e scalar) (any, string) {
	u, err := url.Parse(e.text)
	switch {
	case e.text == "":
	case err != nil:
		return nil, "is not a URL: begin with postgres:// and write special characters of a password as %XX"
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return nil, "must be a URL that begins with postgres:// or postgresql://"
	case u.Hostname() == "" && u.Query().Get("host") == "":
		return nil, "names no host: write postgres://USER:PASSWORD@HOST/DATABASE, or ?host=/DIRECTORY for a socket"
	}
	return e.text, ""
}
