-- Makes the record of a task of the compatible endpoints.
--
-- KEYS  1 task
-- ARGV  1 caller  2 identity  3 type  4 1 = no target had the identity  5 replica that
--       holds it ('' = none does)  6 lease, ms  7 life, ms
-- Answer: 1, or 0 where there is one of this number.
expect('HLEN', 1)
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local now = now_ms()
redis.call('HSET', KEYS[1], 'caller', ARGV[1], 'identity', ARGV[2], 'type', ARGV[3], 'guest', ARGV[4],
  'made', ms(now), 'asked', ms(now), 'holder', ARGV[5], 'lease', ms(ARGV[5] == '' and 0 or now + tonumber(ARGV[6])))
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return 1
