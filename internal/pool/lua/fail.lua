-- Ends an order without a token.
--
-- Uses   journal ended stock_counts attempts ending
-- KEYS   orders journal stats leases spend sale ended tokens tickets seen failures attempts
-- ARGV   order kind owner channel identity call message ending answer margin_ms effect reason
--        attempts_ms;
--        kind: 1 = bought and failed; late = bought and failed by timeout, so the price is spent;
--          lost = the service may have solved the order; 0 = not bought, so the budget is released
--        owner: replica that must own the order; '' = a callback, which needs no lease
--        call: identifies this call and its retries
--        message: message to all replicas if the owner is ''
--        answer: text for a caller whose wait this failure ends, '' = none
--        effect: how the failure counts for the bound: refused, failed, hopeless or '' (not at all)
--        reason: reason of the failure, which the bound reports
--        attempts_ms: minimum life of the hash `attempts`
--        ending: entry for the history, '' = none: how|code|provider|task|ms from placing to submit|polls|
--          callback (1/0)
-- Reply  1 the order was removed, 0 the order does not exist, -1 another replica owns the order or
--        the order counts as bought
-- Errors none for lack of free memory
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
