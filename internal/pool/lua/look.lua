-- Tells what an identity holds, for the refill and for /status.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 paused
--       8 leads  9 leases  10 spend  11 verdicts  12 warm  13 junk  14 mind
--       15 ended  16 hour  17 attempts
-- ARGV  1 margin, ms  2 lead, ms  3 how long what is known is kept after it, ms; 0 = as before
--       4 whether the last hour is told (1/0)
-- Answer: paused (1/0), the counts, ms until the first order is forgotten (0 =
--       there is none), orders of unknown fate, orders that count as
--       bought, solves of the budget's last hour and day, then five lists: ages
--       of the orders in ms, leads in ms, verdicts, figures as name, value, …,
--       windows as tokens, ms until it begins, ms until it ends, …, the text of
--       the last hour, that of the pause, ms until that ends (0 = nobody knows), the
--       attempts as name, value, …, and the time, Unix ms.

local function numbers(text)
  local list = {}
  for n in string.gmatch(text, '%d+') do
    list[#list + 1] = tonumber(n)
  end
  return list
end

-- note_minute adds what was counted since the last look to the minute of this one, so that
-- the takes need not, and returns the text of the last hour; pool/hour.go has its form.
-- Where there is no room for it, the look goes on.
local function note_minute(key, text, figures, now, keep)
  local value, have = {}, {}
  for i = 1, #figures, 2 do
    value[figures[i]] = figures[i + 1]
  end
  for i, name in ipairs({'requests', 'hits', 'waited', 'misses', 'bought', 'solved'}) do
    have[i] = value[name] or '0'
  end
  local all, seen, rest = table.concat(have, ' '), string.match(text or '', '^([^|]*)(.*)$')
  if all == seen or (not text and not keep) then
    return text or ''
  end
  if text then
    local minute, sum, old = math.floor(now / 60000), {}, numbers(seen)
    local last, counts, before = string.match(rest, '^|(%d+) ([^|]*)(.*)$')
    local had = {}
    if tonumber(last) == minute then
      had, rest = numbers(counts), before
    else
      local kept = {}
      for line, of in string.gmatch(rest, '(|(%d+)[^|]*)') do
        if tonumber(of) > minute - 60 and tonumber(of) < minute then
          kept[#kept + 1] = line
        end
      end
      rest = table.concat(kept)
    end
    for i = 1, #have do
      -- The figures of a guest that is gone begin anew.
      sum[i] = ms((had[i] or 0) + math.max(0, tonumber(have[i]) - (old[i] or 0)))
    end
    rest = '|' .. ms(minute) .. ' ' .. table.concat(sum, ' ') .. rest
  end
  text = all .. rest
  redis.pcall('SET', key, text, 'PX', stats_ttl)
  return text
end

local now = now_ms()
local margin, lead = tonumber(ARGV[1]), tonumber(ARGV[2])
expect('LLEN', 1)
expect('ZCARD', 2, 4, 5, 9, 10, 15)
expect('HLEN', 3, 6)
local hour_text = redis.call('GET', KEYS[16])
local attempts = redis.call('HGETALL', KEYS[17])
drop_dead(KEYS[1], KEYS[6], KEYS[13], now + margin)
purge_orders(KEYS[2], KEYS[3], KEYS[9], KEYS[6], KEYS[10], KEYS[13], KEYS[15], now)
local have = counts(KEYS[1], KEYS[2], KEYS[4], KEYS[5], now, margin, lead)
local ages, unknown, bought = {}, 0, 0
local lines = redis.call('HGETALL', KEYS[3])
for i = 1, #lines, 2 do
  local placed, state = string.match(lines[i + 1], '^(%d+)|(%a)|')
  if placed then
    ages[#ages + 1] = now - tonumber(placed)
    unknown = unknown + (state == 'u' and 1 or 0)
    bought = bought + (is_bought(state) and 1 or 0)
  elseif not redis.call('ZSCORE', KEYS[2], lines[i]) then
    redis.call('HDEL', KEYS[3], lines[i])
    set_aside(KEYS[13], KEYS[6], lines[i + 1])
  end
end
local figures = redis.call('HGETALL', KEYS[6])
hour_text = note_minute(KEYS[16], hour_text, figures, now, ARGV[3] ~= '0')
local warm = {}
for _, w in ipairs(windows_of(KEYS[12], now)) do
  warm[#warm + 1] = w.tokens
  warm[#warm + 1] = w.begins - now
  warm[#warm + 1] = w.ends - now
end
local next_order = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local ends = next_order[2] and math.max(1, tonumber(next_order[2]) - now) or 0
local pause = redis.pcall('GET', KEYS[7])
local paused = pause and 1 or 0 -- a value of another type pauses, too
pause = type(pause) == 'string' and pause or ''
-- A pause that has an end keeps it.
local resumes = string.find(pause, '^[1-9]%d*|') and math.max(1, redis.call('PTTL', KEYS[7])) or 0
-- What was learned and counted of an identity in use must not run out, and of one that
-- nobody wants any more it must.
if ARGV[3] ~= '0' then
  for _, i in ipairs({1, 2, 3, 6, 7, 8, 9, 11, 14, 16}) do
    if i ~= 7 or resumes == 0 then
      redis.call('PEXPIRE', KEYS[i], ARGV[3])
    end
  end
end
return {paused, have[1], have[2], have[3], have[4], have[5], have[6],
  ends, unknown, bought,
  redis.call('ZCOUNT', KEYS[10], '(' .. ms(now - hour), '+inf'),
  redis.call('ZCOUNT', KEYS[10], '(' .. ms(now - day), '+inf'),
  ages, redis.call('LRANGE', KEYS[8], 0, -1), redis.call('LRANGE', KEYS[11], 0, -1),
  figures, warm, ARGV[4] == '1' and hour_text or '', pause, resumes,
  attempts, now}
