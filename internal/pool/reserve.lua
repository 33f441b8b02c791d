-- Takes a place at a provider for an order; a second try for the same order
-- finds its place.
--
-- KEYS  1 places
-- ARGV  1 order id  2 most places  3 life of the place, ms
-- Answer: 1 has a place, 0 all are taken, then how many are taken.
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(now))
local taken = redis.call('ZCARD', KEYS[1])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {1, taken}
end
if taken >= tonumber(ARGV[2]) then
  return {0, taken}
end
local ttl = tonumber(ARGV[3])
redis.call('ZADD', KEYS[1], ms(now + ttl), ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl + 60000 then
  redis.call('PEXPIRE', KEYS[1], ttl + 60000)
end
return {1, taken + 1}
