-- Lets a bounded identity place its next order now, and probes it as often as at first.
--
-- KEYS  1 attempts
-- Reply: 1 the identity was bounded, 0 it was not.
local a = attempts_of(KEYS[1])
if a.since == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'next', ms(now_ms()), 'every', ms(a.hopeless and hopeless_first or probe_every))
return 1
