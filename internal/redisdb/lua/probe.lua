-- Checks whether this part of Redis accepts writes. The script fails on a read-only replica, without
-- free memory, with too few replicas, and without the right to the keys.
--
-- KEYS   probe
-- ARGV   life_ms
-- Reply  1
-- Errors the error of this part of Redis for a write
redis.call('SET', KEYS.probe, '1', 'PX', ARGV.life_ms)
return 1
