-- Tries whether this part of Redis takes writes.
--
-- KEYS  1 a key for nothing else
-- ARGV  1 its life, ms
-- Answer: 1. What keeps a landing from being written keeps this from it: a replica,
--       no memory left, too few replicas, no right to the keys.
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return 1
