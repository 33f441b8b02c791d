-- Ends the permit of an order that was not placed. If the order was the probe, another order may be
-- the probe at once.
--
-- Uses   standing
-- KEYS   permits standing
-- ARGV   order
-- Reply  1 the order had a permit, 0 it had none
local s = standing_of()
local had = redis.call('ZREM', KEYS.permits, ARGV.order)
if s.holder == ARGV.order then
  standing_set('next', ms(now_ms()), 'turn', ms(now_ms()), 'holder', '')
end
return had
