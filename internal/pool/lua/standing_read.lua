-- Tells how a provider does.
--
-- KEYS  1 standing
-- Reply: the fields as name, value, …, and the time, Unix ms.
return {redis.call('HGETALL', KEYS[1]), now_ms()}
