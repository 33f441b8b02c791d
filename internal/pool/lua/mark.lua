-- Notes that an order is about to be submitted, for its owner alone. Whoever
-- finds it in this state later cannot know whether it was bought.
--
-- KEYS  1 orders  2 journal  3 leases
-- ARGV  1 order id  2 owner  3 lease, ms
-- Answer: 1 go ahead, 0 the order is gone or another replica's.
local now = now_ms()
expect('ZCARD', 1, 3)
local e = entry_of(KEYS[2], ARGV[1])
if not e or e.owner ~= ARGV[2] or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
if e.state == 'i' then
  -- Another node's clock may be a little behind.
  e.state, e.unsolved = 's', math.max(0, now - e.placed)
  write_entry(KEYS[2], ARGV[1], e)
end
redis.call('ZADD', KEYS[3], ms(now + tonumber(ARGV[3])), ARGV[1])
return e.state == 's' and 1 or 0
