-- Reserves one solve in the budget over all targets; the same order may ask
-- again and counts once.
--
-- KEYS  1 spend
-- ARGV  1 order id  2 most a day
-- Answer: 0 reserved, else ms until there is room.
local now = now_ms()
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local wait = budget_wait(KEYS[1], now, 0, tonumber(ARGV[2]))
if wait == 0 then
  book(KEYS[1], now, ARGV[1])
end
return wait
