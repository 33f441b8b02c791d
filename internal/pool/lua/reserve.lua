-- Takes a place at a provider for an order; a second try for the same order
-- finds its place, and can shorten its life.
--
-- KEYS  1 places
-- ARGV  1 order id  2 most places  3 life of the place, ms
-- Answer: 1 has a place, 0 all are taken; and the time, Unix ms.
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(now))
local taken = redis.call('ZCARD', KEYS[1])
local ttl = tonumber(ARGV[3])
local until_now = redis.call('ZSCORE', KEYS[1], ARGV[1])
if until_now then
  redis.call('ZADD', KEYS[1], ms(math.min(tonumber(until_now), now + ttl)), ARGV[1])
  return {1, now}
end
if taken >= tonumber(ARGV[2]) then
  return {0, now}
end
redis.call('ZADD', KEYS[1], ms(now + ttl), ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl + 60000 then
  redis.call('PEXPIRE', KEYS[1], ttl + 60000)
end
return {1, now}
