-- Reserves one solve in a budget that orders of many identities share; the same
-- order may ask again and counts once.
--
-- KEYS  1 spend
-- ARGV  1 order id  2 most an hour  3 most a day  4 not after this time, Unix ms
--       (0 = any)
-- Answer: 0 reserved, -1 too late, else ms until there is room.
local now = now_ms()
if tonumber(ARGV[4]) > 0 and now > tonumber(ARGV[4]) then
  return -1
end
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local wait = budget_wait(KEYS[1], now, tonumber(ARGV[2]), tonumber(ARGV[3]))
if wait == 0 then
  book(KEYS[1], now, ARGV[1])
end
return wait
