package targets

import (
	"cmp"
	"strings"
	"time"

	"poold/internal/captcha"
)

// HistoryBackend says where the history is kept.
type HistoryBackend string

// The values of `history.backend`.
const (
	HistoryRedis    HistoryBackend = "redis"
	HistoryPostgres HistoryBackend = "postgres"
	HistoryDynamoDB HistoryBackend = "dynamodb"
	HistoryNone     HistoryBackend = "none" // no history is kept
)

const (
	shortestHistory = 24 * time.Hour
	longestHistory  = 5 * 365 * 24 * time.Hour
	keepInRedis     = 7 * 24 * time.Hour
	keepElsewhere   = 90 * 24 * time.Hour
	keepAudit       = 7 * 24 * time.Hour
	defaultTable    = "CaptchaSolves"
)

// History is the section `history`. A change of it needs a restart.
type History struct {
	Backend  HistoryBackend // default redis
	Keep     time.Duration  // 24h to 43800h; default 168h in redis, else 2160h; 0 with none
	Audit    time.Duration  // how long the audit is kept: 24h to 43800h, default 168h; 0 = there is none, as with none
	URL      captcha.Secret // of the database; set with postgres alone; may hold a password
	Table    string         // set with dynamodb alone; default CaptchaSolves
	Endpoint string         // with dynamodb alone; "" = that of AWS
	Region   string         // with dynamodb alone; "" = as the environment of AWS says
	// ActiveItems reports whether the table has an item of each order under way. Default true
	// with dynamodb, else false.
	ActiveItems bool
}

// history checks the section `history`.
func (r *reader) history(rec record, set *Set) {
	set.lines.history = rec.at("keep", "audit", "url", "table", "endpoint", "region", "active_items", "backend").line
	if rec.bad("backend") {
		return
	}
	h := &set.History
	for _, given := range []struct {
		key, value string
		of         HistoryBackend
	}{
		{"url", h.URL.Reveal(), HistoryPostgres}, {"table", h.Table, HistoryDynamoDB},
		{"endpoint", h.Endpoint, HistoryDynamoDB}, {"region", h.Region, HistoryDynamoDB},
	} {
		if given.value != "" && h.Backend != given.of {
			rec.at(given.key).fail("belongs to backend: %s: remove it, or set backend", given.of)
		}
	}
	if h.Backend != HistoryDynamoDB {
		h.ActiveItems = false
		if rec.has("active_items") && !rec.bad("active_items") {
			rec.at("active_items").fail("belongs to backend: %s: remove it, or set backend", HistoryDynamoDB)
		}
	}
	if at := rec.at("url"); h.Backend == HistoryPostgres && h.URL == "" && !rec.bad("url") {
		at.fail("is required with backend: postgres, as postgres://USER:PASSWORD@HOST/DATABASE%s", at.remedy())
	}
	keeping(rec, h)
}

// keeping checks how long history and audit are kept, and fills in what depends on the
// backend.
func keeping(rec record, h *History) {
	if h.Audit > 0 && h.Audit < shortestHistory {
		rec.at("audit").fail("must be 0s, which is off, or a duration from %s to %s", short(shortestHistory), short(longestHistory))
	}
	switch h.Backend {
	case HistoryNone:
		h.Audit = 0
		for _, key := range []string{"keep", "audit"} {
			if rec.has(key) && !rec.bad(key) {
				rec.at(key).fail("belongs to a backend that keeps something: remove it, or set backend")
			}
		}
	case HistoryRedis:
		h.Keep = cmp.Or(h.Keep, keepInRedis)
	case HistoryDynamoDB:
		h.Table = cmp.Or(h.Table, defaultTable)
		h.Keep = cmp.Or(h.Keep, keepElsewhere)
	case HistoryPostgres:
		h.Keep = cmp.Or(h.Keep, keepElsewhere)
	}
}

// endpointURL is the address of a server or nothing, as a string. No message quotes it.
var endpointURL = textual{parse: func(e expansion) (any, string) {
	if e.text == "" {
		return "", ""
	}
	u, rule := baseURL(e.text)
	switch {
	case rule != "":
		return nil, rule
	case u.User != nil || strings.ContainsAny(e.text, "?#"):
		return nil, "must be the address alone: credentials come from the environment of AWS"
	}
	return e.text, ""
}}
