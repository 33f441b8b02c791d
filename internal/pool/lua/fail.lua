-- Ends an order without a token.
--
-- Uses   journal ended stock_counts attempts ending
-- KEYS   orders journal stats leases spend sale ended tokens tickets seen failures attempts
-- ARGV   order kind owner channel identity call message ending answer margin_ms effect reason
--        attempts_ms;
--        kind: 1 = bought and failed, late = bought, failed and paid, lost = the service may have
--          solved it, 0 = not bought, and its budget is released
--        owner: '' = a callback, which needs no lease
--        call: number of this call
--        message: to other replicas
--        answer: for a caller that lacks the order now, '' = none
--        effect: on the bound: refused, failed, hopeless or '' (none)
--        reason: of the bound
--        attempts_ms: least life of the bound
--        ending: for the history, '' = no note: how|code|provider|task|ms from placing to submit|polls|
--          callback (1/0)
-- Reply  1 removed, 0 no such order, -1 another replica owns it
-- Errors WRONGTYPE before any change; works without free memory
expect('LLEN', KEYS.tokens)
expect('ZCARD', KEYS.orders, KEYS.leases, KEYS.spend, KEYS.ended, KEYS.tickets, KEYS.seen, KEYS.failures)
expect('HLEN', KEYS.attempts)
writable('HDEL', KEYS.stats)
local e = entry_of(ARGV.order)
if not e or not redis.call('ZSCORE', KEYS.orders, ARGV.order) then
  return ended_before()
end
local bought, lost = ARGV.kind ~= '0', ARGV.kind == 'lost'
if (ARGV.owner ~= '' and e.owner ~= ARGV.owner) or (not bought and is_bought(e.state)) then
  return -1
end
remove(ARGV.order)
redis.call('SET', KEYS.sale, ARGV.call .. '|', 'PX', 60000)
if bought then
  add_figures(KEYS.stats, {failed = lost and 0 or 1, lost = lost and 1 or 0, spent = (lost or ARGV.kind == 'late') and e.price or 0,
    bought = is_bought(e.state) and 0 or 1})
else
  redis.call('ZREM', KEYS.spend, ARGV.order)
end
if ARGV.ending ~= '' then
  note_end(now_ms(), ARGV.order, e, ARGV.ending .. '|-1')
end
local began = attempts_failed(now_ms(), ARGV.effect, ARGV.reason, e.placed, ARGV.attempts_ms)
local elsewhere = answer_one(e.owner)
notify(ARGV.message, elsewhere or began)
return 1
