package targets

import (
	"net/url"

	"poold/internal/captcha"
)

// DedupBackend says where equal requests find each other.
type DedupBackend string

// The values of `dedup.backend`.
const (
	DedupRedis    DedupBackend = "redis"
	DedupPostgres DedupBackend = "postgres"
)

// Dedup is the section `dedup`. A change of it needs a restart.
type Dedup struct {
	Backend DedupBackend   // default redis
	URL     captcha.Secret // of the database; set with postgres alone; may hold a password
}

// dedup checks the section `dedup`.
func (r *reader) dedup(rec record, set *Set) {
	set.lines.dedup = rec.at("url", "backend").line
	switch d, at := set.Dedup, rec.at("url"); {
	case rec.bad("backend", "url"):
	case d.Backend == DedupPostgres && d.URL == "":
		at.fail("is required with backend: postgres, as postgres://USER:PASSWORD@HOST/DATABASE%s", at.remedy())
	case d.Backend == DedupRedis && d.URL != "":
		at.fail("belongs to backend: postgres: remove it, or set backend")
	}
}

// postgresURL is the address of a database or nothing, as a captcha.Secret. No message
// quotes it: it may hold a password.
var postgresURL = textual{parse: func(e expansion) (any, string) {
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
	return captcha.Secret(e.text), ""
}}
