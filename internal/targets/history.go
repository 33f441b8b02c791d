package targets

import (
	"cmp"
	"time"

	"poold/internal/captcha"
)

// HistoryBackend is the store of the history.
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
	keepInRedis     = 7 * 24 * time.Hour
	keepElsewhere   = 90 * 24 * time.Hour
	defaultTable    = "CaptchaSolves"
)

// History is the section history of pools.yaml. A change of this section needs a restart. Fields
// that belong to another backend than the chosen one are zero.
type History struct {
	Backend     HistoryBackend `key:"backend" words:"redis postgres dynamodb none" default:"redis" doc:"redis: the server of the section redis; postgres: the database of url; dynamodb: the table; none: no history is kept."`
	Keep        time.Duration  `key:"keep" range:"24h 43800h" doc:"How long records are kept. Default: 168h (7 days) in redis, 2160h (90 days) in postgres and dynamodb."`
	Audit       time.Duration  `key:"audit" range:"0s 43800h" default:"168h" doc:"How long the audit entries (which key took which token, and its report) are kept: at least 24h, or 0s for none."`
	URL         captcha.Secret `key:"url" as:"postgres" doc:"Address of the database, beginning with postgres://. Required with postgres."`
	Table       string         `key:"table" form:"[A-Za-z0-9_.-]{3,255}" want:"a table's name: 3 to 255 letters, digits, _, . and -" doc:"Name of the table; dynamodb only. Default: CaptchaSolves."`
	Endpoint    string         `key:"endpoint" as:"endpoint" doc:"Address of a server other than AWS, such as an emulator; dynamodb only. Default: AWS."`
	Region      string         `key:"region" form:"[a-z0-9-]{1,63}" want:"a region's name such as eu-central-1" doc:"Region of the table; dynamodb only. Default: from AWS_REGION or the configuration of AWS."`
	ActiveItems bool           `key:"active_items" default:"true" doc:"Whether the table has an item for each order in flight, for other programs; dynamodb only. false saves 4 write units an order."`
}

// check checks the section, and sets the defaults that depend on the backend.
func (h *History) check(e entry) {
	if e.hasInvalid("backend") {
		return
	}
	for _, given := range []struct {
		key, value string
		of         HistoryBackend
	}{
		{"url", h.URL.Reveal(), HistoryPostgres}, {"table", h.Table, HistoryDynamoDB},
		{"endpoint", h.Endpoint, HistoryDynamoDB}, {"region", h.Region, HistoryDynamoDB},
	} {
		if given.value != "" && h.Backend != given.of {
			e.firstEntry(given.key).fail("belongs to backend: %s: remove it, or set backend", given.of)
		}
	}
	if h.Backend != HistoryDynamoDB {
		h.ActiveItems = false
		if e.hasKey("active_items") && !e.hasInvalid("active_items") {
			e.firstEntry("active_items").fail("belongs to backend: %s: remove it, or set backend", HistoryDynamoDB)
		}
	} else {
		h.Table = cmp.Or(h.Table, defaultTable)
	}
	if at := e.firstEntry("url"); h.Backend == HistoryPostgres && h.URL == "" && !e.hasInvalid("url") {
		at.fail("is required with backend: postgres, as postgres://USER:PASSWORD@HOST/DATABASE%s", at.remedy())
	}
	h.checkKeep(e)
}

// checkKeep checks the retention times of the history and of the audit. It sets the defaults that
// depend on the backend.
func (h *History) checkKeep(e entry) {
	if h.Audit > 0 && h.Audit < shortestHistory {
		e.firstEntry("audit").fail("must be 0s, which is off, or a duration from 24h to 43800h")
	}
	switch h.Backend {
	case HistoryNone:
		h.Audit = 0
		for _, key := range []string{"keep", "audit"} {
			if e.hasKey(key) && !e.hasInvalid(key) {
				e.firstEntry(key).fail("belongs to a backend that keeps something: remove it, or set backend")
			}
		}
	case HistoryRedis:
		h.Keep = cmp.Or(h.Keep, keepInRedis)
	case HistoryDynamoDB, HistoryPostgres:
		h.Keep = cmp.Or(h.Keep, keepElsewhere)
	}
}

// endpointURL parses the address of a DynamoDB server. The address may be empty. No message quotes
// the address.
func endpointURL(e scalar) (any, string) {
	const rule = "must be the address alone: credentials come from the environment of AWS"
	return baseAddress(e.text, rule, rule)
}
