-- Gives back the permit of an order that was not placed, and the probe that it took.
--
-- KEYS  1 permits  2 standing
-- ARGV  1 order id
-- Reply: 1 the order had a permit, 0 it had none.
local s = standing_of(KEYS[2])
local had = redis.call('ZREM', KEYS[1], ARGV[1])
if s.holder == ARGV[1] then
  standing_set(KEYS[2], 'next', ms(now_ms()), 'turn', ms(now_ms()), 'holder', '')
end
return had
