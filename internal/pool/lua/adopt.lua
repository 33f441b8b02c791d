-- Takes over those of the named orders whose lease has ended. Orders of unknown
-- fate have a lease as long as their life.
--
-- KEYS  1 orders  2 journal  3 leases  4 stats  5 spend  6 junk  7 ended
-- ARGV  1 new owner  2 lease, ms  3.. order ids
-- Answer: two lists: for each one taken over its order, ms since it was placed, ms
--       until it is forgotten, its line of the journal; and those that are gone.
local now = now_ms()
expect('ZCARD', 1, 3, 5, 7)
expect('HLEN', 2)
writable('HDEL', KEYS[4])
purge_orders(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], now)
local taken, gone = {}, {}
for i = 3, #ARGV do
  local order = ARGV[i]
  local e = entry_of(KEYS[2], order)
  local deadline = redis.call('ZSCORE', KEYS[1], order)
  local lease = tonumber(redis.call('ZSCORE', KEYS[3], order) or 0)
  if not e or not deadline then
    gone[#gone + 1] = order
  elseif lease <= now then
    e.owner = ARGV[1]
    write_entry(KEYS[2], order, e)
    redis.call('ZADD', KEYS[3], ms(now + tonumber(ARGV[2])), order)
    taken[#taken + 1] = order
    taken[#taken + 1] = now - e.placed
    taken[#taken + 1] = tonumber(deadline) - now
    taken[#taken + 1] = redis.call('HGET', KEYS[2], order)
  end
end
return {taken, gone}
