-- Stores a new order if outliving + orders - waiting < depth, and if the target's budgets and the
-- identity's bound allow the order.
--
-- Uses   journal ended purge spend stock_counts attempts
-- KEYS   tokens orders journal tickets seen stats paused leases spend ended attempts
-- ARGV   order depth margin_ms lead_ms life_ms owner lease_ms price facts per_hour per_day
--        not_after;
--        depth: number of tokens
--        life_ms: time until the order's deadline
--        price: price of the token in billionths of the currency
--        per_hour, per_day: orders, 0 = no limit
--        not_after: Unix ms, 0 = no limit
-- Reply  {outcome wait_ms hopeless reason};
--        outcome: 1 the order is placed, now or by an earlier try; 0 the stock is deep enough; -1 buying
--          is paused; -2 a budget is used up; -3 the call came too late; -4 the identity is bounded
--        wait_ms: time until the budget or the bound allows an order, else 0
--        hopeless (1/0), reason: state of the bound, only if the outcome is -4
-- Errors OOM before any change
local now = now_ms()
local order, margin, lead = ARGV.order, tonumber(ARGV.margin_ms), tonumber(ARGV.lead_ms)
local per_hour, per_day = tonumber(ARGV.per_hour), tonumber(ARGV.per_day)
local attempts = attempts_of()
purge_orders(now)
local have = stock_counts(now, margin, lead)
if redis.call('ZSCORE', KEYS.orders, order) then
  return {1, 0}
end
if redis.call('EXISTS', KEYS.paused) == 1 then
  return {-1, 0}
end
local last = tonumber(ARGV.not_after)
if last > 0 and now > last then
  return {-3, 0}
end
if have.outliving + have.orders - have.waiting >= tonumber(ARGV.depth) then
  return {0, 0}
end
local held = attempts_wait(attempts, now)
if held > 0 then
  return {-4, held, attempts.hopeless and 1 or 0, attempts.reason}
end
if per_hour > 0 or per_day > 0 then
  local wait = budget_wait(now, per_hour, per_day)
  if wait > 0 then
    return {-2, wait}
  end
  book(now, order)
end
attempts_probe(attempts, now)
redis.call('ZADD', KEYS.orders, ms(now + tonumber(ARGV.life_ms)), order)
redis.call('ZADD', KEYS.leases, ms(now + tonumber(ARGV.lease_ms)), order)
write_entry(order, {placed = now, state = 'i', owner = ARGV.owner, unsolved = 0,
  price = tonumber(ARGV.price), task = '', facts = ARGV.facts})
for _, key in ipairs({KEYS.orders, KEYS.journal, KEYS.leases}) do
  redis.call('PEXPIRE', key, stats_ttl)
end
return {1, 0}
