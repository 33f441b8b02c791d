-- Renews the lease of a task, or lets go of it: also where its caller has not asked for so
-- long.
--
-- KEYS  1 task
-- ARGV  1 replica  2 lease, ms; 0 = let go  3 ms without a question after which nobody
--       waits any more
-- Answer: 1 the replica holds it, 0 it let go, -1 it did not hold it.
expect('HLEN', 1)
local now = now_ms()
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then
  return -1
end
local asked = tonumber(redis.call('HGET', KEYS[1], 'asked'))
if ARGV[2] == '0' or now - asked >= tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'holder', '')
  return 0
end
redis.call('HSET', KEYS[1], 'lease', ms(now + tonumber(ARGV[2])))
return 1
