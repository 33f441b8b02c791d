-- Gives an order a permit at a provider; a second try for the same order finds its
-- permit, and can shorten its life.
--
-- KEYS  1 permits
-- ARGV  1 order id  2 most permits  3 life of the permit, ms
-- Answer: 1 has a permit, 0 all are in use; and the time, Unix ms.
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(now))
local used = redis.call('ZCARD', KEYS[1])
local ttl = tonumber(ARGV[3])
local until_now = redis.call('ZSCORE', KEYS[1], ARGV[1])
if until_now then
  redis.call('ZADD', KEYS[1], ms(math.min(tonumber(until_now), now + ttl)), ARGV[1])
  return {1, now}
end
if used >= tonumber(ARGV[2]) then
  return {0, now}
end
redis.call('ZADD', KEYS[1], ms(now + ttl), ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl + 60000 then
  redis.call('PEXPIRE', KEYS[1], ttl + 60000)
end
return {1, now}
