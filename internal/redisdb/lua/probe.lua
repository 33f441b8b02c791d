-- Tries whether this part of Redis takes writes. It fails for each cause that would fail a
-- settle: a read-only replica, no free memory, too few replicas, no right to the keys.
--
-- KEYS   probe
-- ARGV   life_ms
-- Reply  1
-- Errors the answer of this part of Redis to a write
redis.call('SET', KEYS.probe, '1', 'PX', ARGV.life_ms)
return 1
