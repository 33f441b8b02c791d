-- Binds an Idempotency-Key to the identity that it is first used for.
--
-- KEYS  1 bound
-- ARGV  1 identity  2 how long the key stays bound, ms
-- Answer: 1 bound to this identity, 0 to another one.
local bound = redis.call('GET', KEYS[1])
if bound and bound ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ms(math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[1]))))
return 1
