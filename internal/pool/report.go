package pool

import (
	"context"
	"time"

	"poold/internal/captcha"
)

// report counts whether a site accepted a token. Only the first report about a token counts. A repetition of the
// command has the same nonce.
// Its steps are in testdata/report.txt.
var report = newScript("report", `
-- KEYS 1 sale:ORDER 2 outbox:handouts
-- ARGV 1 accepted (1, 0) 2 nonce 3 hash of the identity 4 order 5 row ('' = no sink) 6 hash of the caller
-- Reply {1 counted, 2 the same report again, 0 unknown, -1 another report before; identity, provider, task, age in ms}
local sale = redis.call('GET', KEYS[1])
if not sale then return {0, '', '', '', 0} end
local id, provider, task, born, captcha_type, by = string.match(sale, '^([^|]*)|([^|]*)|([^|]*)|(%d+)|([^|]*)|?(.*)$')
if (string.gsub(id, '^guest%-', '')) ~= ARGV[3] then return {0, '', '', '', 0} end
local said = ARGV[1] .. ARGV[6]
if by ~= '' then
  local result = by == said .. ARGV[2] and 1 or by:sub(1, #said) == said and 2 or -1
  return {result, id, provider, task, now - born}
end
redis.call('SET', KEYS[1], sale .. '|' .. said .. ARGV[2], 'PX', math.max(1, redis.call('PTTL', KEYS[1])))
local outcome = ARGV[1] == '1' and 'accepted' or 'rejected'
count(id, outcome, 1)
keep('@stats:' .. counter_id(id), 'reports', ARGV[1], 20)
if captcha_type ~= '' then tally(provider, captcha_type, 'report:', {['report:' .. outcome .. ':' .. ARGV[6]] = 1}) end
if ARGV[5] ~= '' then tell('handouts', 'kind', outcome, 'order', ARGV[4], 'row', ARGV[5]) end
return {1, id, provider, task, now - born}
`)

// Sale describes a token that entered the stock; it is kept so that callers can report on the token.
type Sale struct {
	ID       captcha.ID
	Provider string
	Task     string
	Age      time.Duration // since the earliest time of the solve
}

// Effect says whether a report counted.
type Effect int

// The effects of Report.
const (
	ReportUnknown  Effect = 0 // no such token of the identity, or it died more than 15 min ago
	ReportCounted  Effect = 1
	ReportRepeated Effect = 2  // the caller's earlier report with the same outcome was counted
	ReportConflict Effect = -1 // an earlier report was counted, with another outcome or of another caller
)

// Report counts whether a site accepted the token of an order. The hash is the ID of the token's identity without the
// mark of a guest. The nonce identifies the request. The row is JSON for the sink; "" = no sink.
func (p *Pool) Report(ctx context.Context, order string, hash captcha.ID, accepted bool, caller, nonce,
	row string) (Effect, Sale, error) {
	v, err := p.runScript(ctx, report, []string{p.key("sale", order), p.key("outbox", Handouts)}, bit(accepted), nonce,
		string(hash), order, row, digest(caller))
	if err != nil {
		return ReportUnknown, Sale{}, err
	}
	return Effect(number(v[0])), Sale{ID: captcha.ID(text(v[1])), Provider: text(v[2]), Task: text(v[3]),
		Age: span(v[4])}, nil
}
