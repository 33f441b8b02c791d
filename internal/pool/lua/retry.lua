-- Lets a bounded identity place its next order now and resets the interval of its probes.
--
-- Uses   attempts
-- KEYS   attempts
-- Reply  1 the identity was bounded, 0 the identity was not bounded
-- Errors OOM before any change
local a = attempts_of()
if a.since == 0 then
  return 0
end
redis.call('HSET', KEYS.attempts, 'next', ms(now_ms()), 'every', ms(a.hopeless and hopeless_first or probe_every))
return 1
