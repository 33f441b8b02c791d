-- Reads the standing of a provider.
--
-- KEYS   standing
-- Reply  {fields now};
--        fields: name, value, …
--        now: Unix ms
return {redis.call('HGETALL', KEYS.standing), now_ms()}
