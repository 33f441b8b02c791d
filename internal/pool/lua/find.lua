-- Reads one order of the journal.
--
-- KEYS  1 orders  2 journal
-- ARGV  1 order id
-- Answer: ms since it was placed, ms until it is forgotten, its line of the
--       journal; nothing where there is no such order.
local now = now_ms()
local deadline = redis.call('ZSCORE', KEYS[1], ARGV[1])
local e = entry_of(KEYS[2], ARGV[1])
if not deadline or not e or tonumber(deadline) <= now then
  return {}
end
return {now - e.placed, tonumber(deadline) - now, redis.call('HGET', KEYS[2], ARGV[1])}
