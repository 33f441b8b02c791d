-- Reserves one solve in a budget that orders of many identities share. Repeated calls for one order
-- count once.
--
-- Uses   spend
-- KEYS   spend
-- ARGV   order per_hour per_day not_after;
--        per_hour, per_day: orders, 0 = no limit
--        not_after: Unix ms, 0 = no limit
-- Reply  0 the solve is reserved, -1 the call came too late, else the ms until the budget has room
-- Errors OOM before any change
local now = now_ms()
if tonumber(ARGV.not_after) > 0 and now > tonumber(ARGV.not_after) then
  return -1
end
if redis.call('ZSCORE', KEYS.spend, ARGV.order) then
  return 0
end
local wait = budget_wait(now, tonumber(ARGV.per_hour), tonumber(ARGV.per_day))
if wait == 0 then
  book(now, ARGV.order)
end
return wait
