-- Tells the savings of today and of six days before.
--
-- KEYS  1 savings of the caller's day
-- Answer: of each day, today first, its date and a list: source, number, ...
local now, days = now_ms(), {}
for ago = 0, 6 do
  local moment = now - ago * day_ms
  days[#days + 1] = {date(moment), redis.call('HGETALL', savings_of(KEYS[1], moment))}
end
return days
