-- Records the heartbeat of a replica, and returns the names of all live replicas.
--
-- KEYS   replicas
-- ARGV   replica life_ms
-- Reply  names of replicas
-- Errors OOM before any change
local now = now_ms()
redis.call('ZADD', KEYS.replicas, ms(now + ARGV.life_ms), ARGV.replica)
redis.call('ZREMRANGEBYSCORE', KEYS.replicas, '-inf', ms(now))
-- An entry whose end is too far in the future was written before Redis' clock was set back. The
-- next heartbeat of a live replica adds the entry again.
local longest = 60000
redis.call('ZREMRANGEBYSCORE', KEYS.replicas, '(' .. ms(now + longest + clocks), '+inf')
redis.call('PEXPIRE', KEYS.replicas, ARGV.life_ms)
return redis.call('ZRANGE', KEYS.replicas, 0, -1)
