-- Lets the next order at a provider be placed at once.
--
-- Uses   standing
-- KEYS   standing
-- Reply  1 orders had to wait before, 0 they did not have to wait
-- Errors OOM before any change
local s = standing_of()
if s.kind == '' and s.refusals < most_refusals then
  return 0
end
standing_set('next', ms(now_ms()), 'turn', ms(now_ms()))
return 1
