-- Reads the savings of today and of the six days before.
--
-- Uses   savings
-- KEYS   savings;
--        savings: savings of the day on the caller's clock
-- Reply  for each day, today first, its date and a list of source, number, …
local now, days = now_ms(), {}
for ago = 0, 6 do
  local moment = now - ago * day_ms
  days[#days + 1] = {date(moment), redis.call('HGETALL', savings_of(moment))}
end
return days
