-- Notes that a replica is alive.
--
-- KEYS   replicas
-- ARGV   replica life_ms
-- Reply  the names of the live replicas
local now = now_ms()
expect('ZCARD', KEYS.replicas)
redis.call('ZADD', KEYS.replicas, ms(now + ARGV.life_ms), ARGV.replica)
redis.call('ZREMRANGEBYSCORE', KEYS.replicas, '-inf', ms(now))
redis.call('PEXPIRE', KEYS.replicas, ARGV.life_ms)
return redis.call('ZRANGE', KEYS.replicas, 0, -1)
