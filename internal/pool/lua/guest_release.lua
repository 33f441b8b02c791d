-- Lets go of a guest that was due: off the list, or to be looked at again; not where
-- it was used meanwhile, or is another replica's by now.
--
-- KEYS  1 guests  2 folded
-- ARGV  1 identity  2 when it was due again for who took it, Unix ms  3 ms until it is to be
--       looked at again, -1 = never  4 name of its figures, which are gone; '' = none
--       5 how long that name is still known, ms
-- Answer: 1 let go, 0 it was used meanwhile.
local now, again = now_ms(), tonumber(ARGV[3])
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[2], 'XX', ms(now + tonumber(ARGV[5])), ARGV[4])
end
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0) ~= tonumber(ARGV[2]) then
  return 0
end
if again < 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ms(now + again), ARGV[1])
end
return 1
