-- Forgets a guest's figures that are in the row of all guests; not those of a later
-- time. That it was handed over to a target stays known for a while.
--
-- KEYS  1 retired
-- ARGV  1 name of the figures  2 that while, ms
-- Answer: 1 forgotten, 0 there are none of this name.
if redis.call('HGET', KEYS[1], 'nonce') ~= ARGV[1] then
  return 0
end
local left = handed_over(KEYS[1])
redis.call('DEL', KEYS[1])
if left then
  redis.call('HSET', KEYS[1], 'left', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
