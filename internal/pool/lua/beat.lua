-- Notes that a replica lives.
--
-- KEYS  1 replicas
-- ARGV  1 its name  2 for how long, ms
-- Answer: the names of those that live.
local now = now_ms()
expect('ZCARD', 1)
redis.call('ZADD', KEYS[1], ms(now + ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(now))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
