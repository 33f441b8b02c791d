-- Checks whether this part of Redis accepts writes. It fails on a read-only replica, without free
-- memory, with too few replicas, and without the right to the keys.
--
-- KEYS   probe
-- ARGV   life_ms
-- Reply  1
-- Errors the error of this part of Redis at a write
redis.call('SET', KEYS.probe, '1', 'PX', ARGV.life_ms)
return 1
