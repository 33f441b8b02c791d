-- Shared: functions that count savings. Each UTC day has a hash: source -> number of requests.
--
-- KEYS   savings

-- The savings of today and of the previous six days are kept.
local day_ms, savings_ttl = 86400000, 604800000

-- The function date returns the UTC day of a time in Unix ms, in the form 2006-01-02. It counts in
-- cycles of 400 years. Each year begins in March, so that a leap day is the last day of a year.
local function date(now)
  local days = math.floor(now / day_ms) + 719468 -- since 0000-03-01
  local cycle = math.floor(days / 146097)
  days = days - cycle * 146097
  local year = math.floor((days - math.floor(days / 1460) + math.floor(days / 36524) - math.floor(days / 146096)) / 365)
  days = days - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * days + 2) / 153) -- 0 is March
  local day = days - math.floor((153 * month + 2) / 5) + 1
  if month >= 10 then
    year = year + 1
    month = month - 12
  end
  return string.format('%04d-%02d-%02d', cycle * 400 + year, month + 3, day)
end

-- savings_of returns the key of the savings of a day on Redis' clock. KEYS.savings has the date on the
-- caller's clock, which this function replaces.
local function savings_of(moment)
  return string.sub(KEYS.savings, 1, -11) .. date(moment)
end

-- The function save adds requests to the savings of a day, by source. The key `mark` ensures that a
-- retry adds nothing.
local function save(day, mark, requests)
  if not redis.call('SET', mark, '', 'NX', 'PX', 10000) then
    return
  end
  for source, n in pairs(requests) do
    if n > 0 then
      redis.call('HINCRBY', day, source, ms(n))
    end
  end
  redis.call('PEXPIRE', day, savings_ttl)
end
