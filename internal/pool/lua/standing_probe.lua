-- Lets the next order at a provider be placed at once.
--
-- KEYS  1 standing
-- Reply: 1 the provider was down or bounded, 0 it was not.
local s = standing_of(KEYS[1])
if s.kind == '' and s.refusals < most_refusals then
  return 0
end
standing_set(KEYS[1], 'next', ms(now_ms()), 'turn', ms(now_ms()))
return 1
