-- Shared by the scripts that know savings: scripts.go puts this text in front of
-- theirs. Each UTC day has a hash: source -> requests.

-- Today and six days before are told.
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

-- savings_of names the hash of the day of a moment: `key` is that of the day which
-- the caller takes for today, and Redis' clock says which it is.
local function savings_of(key, moment)
  return string.sub(key, 1, -11) .. date(moment)
end

-- save counts requests by source, once: `mark` says that it was done, should the call
-- be sent again.
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
