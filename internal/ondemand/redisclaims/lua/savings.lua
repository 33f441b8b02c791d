-- Shared: savings. Each UTC day has a hash: source -> requests.
--
-- KEYS   savings

-- Today and the six days before are kept.
local day_ms, savings_ttl = 86400000, 604800000

-- date is the UTC day of a moment, as 2006-01-02. It counts years from March on, so
-- that a leap day is the last of its year, and in cycles of 400 years, which are alike.
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

-- savings_of returns the key of a moment's day on Redis' clock. KEYS.savings names the day on
-- the caller's clock.
local function savings_of(moment)
  return string.sub(KEYS.savings, 1, -11) .. date(moment)
end

-- save counts requests by source. The call's mark makes a retry a no-op.
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
