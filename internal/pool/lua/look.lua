-- Reads an identity's stock, orders and figures for the refill and for the status, and extends the
-- life of the identity's keys.
--
-- Uses   journal ended purge spend stock_counts
-- KEYS   tokens orders journal tickets seen stats paused leads leases spend verdicts
--        learned ended hour hours attempts
-- ARGV   margin_ms lead_ms keep_ms hour want;
--        keep_ms: new life of the keys, 0 = unchanged
--        hour: 1 = the reply includes the last hour
--        want: number of tokens that the policy wants; -1 = unknown
-- Reply  {paused fresh outliving orders waiting next_expiry_ms next_look_ms next_end_ms unknown
--        bought hour_used day_used ages leads verdicts figures hour pause resumes_ms
--        attempts now};
--        paused: 1 or 0
--        fresh, outliving: numbers of tokens
--        orders, unknown, bought: numbers of orders; waiting: number of tickets
--        next_expiry_ms, next_look_ms: the fields expiry and look of stock_counts
--        next_end_ms: time until the next deadline of an order, 0 = no order
--        hour_used, day_used: numbers of orders in the budget of the last hour and of the last day
--        ages, leads: ms
--        figures, attempts: name, value, …
--        hour: the text of the last hour, or empty
--        pause: stored text of the pause, or empty
--        resumes_ms: time until the pause ends, 0 = the pause has no end
--        now: Unix ms

local function numbers(text)
  local list = {}
  for n in string.gmatch(text, '%d+') do
    list[#list + 1] = tonumber(n)
  end
  return list
end

-- add_period adds counts to a period in a text of the form "|period counts|…", the newest period
-- first, and returns the text with at most the last `most` periods. The last two counts are the
-- lowest number of fresh tokens and the wanted number (-1 = unchanged).
local function add_period(text, period, counts, most)
  local last, newest, rest = string.match(text, '^|(%d+) ([^|]*)(.*)$')
  local fresh, want, had = #counts - 1, #counts, numbers(newest or '')
  if tonumber(last) ~= period then
    local kept = {}
    for line, of in string.gmatch(text, '(|(%d+)[^|]*)') do
      if tonumber(of) > period - most and tonumber(of) < period then
        kept[#kept + 1] = line
      end
    end
    had, rest = {[want] = had[want]}, table.concat(kept)
  end
  local sum = {}
  for i = 1, fresh - 1 do
    sum[i] = ms((had[i] or 0) + counts[i])
  end
  sum[fresh] = ms(math.min(had[fresh] or counts[fresh], counts[fresh]))
  sum[want] = ms(counts[want] >= 0 and counts[want] or had[want] or 0)
  return '|' .. ms(period) .. ' ' .. table.concat(sum, ' ') .. rest
end

-- end_minute adds the counts of the newest stored minute to their hour in the text of the last day,
-- unless that minute is the minute of this look.
local function end_minute(rest, minute)
  local last, counts = string.match(rest, '^|(%d+) ([^|]*)')
  if not last or tonumber(last) == minute then
    return
  end
  local hours = redis.call('GET', KEYS.hours) or ''
  hours = add_period(hours, math.floor(tonumber(last) / 60), numbers(counts), 24)
  redis.pcall('SET', KEYS.hours, hours, 'PX', stats_ttl)
end

-- note_minute adds the changes of the figures since the last look to the minute of this look, so that
-- takes need not count by minute. note_minute returns the text of the last hour in the form of the
-- README. If Redis is out of memory, the text is not stored, and the look continues.
local function note_minute(text, figures, now, keep, fresh)
  local value, have = pairs_of(figures), {}
  for i, name in ipairs({'requests', 'hits', 'waited', 'misses', 'bought', 'solved'}) do
    have[i] = value[name] or '0'
  end
  local all, seen, rest = table.concat(have, ' '), string.match(text or '', '^([^|]*)(.*)$')
  if all == seen or (not text and not keep) then
    return text or ''
  end
  if text then
    local minute, counts, old = math.floor(now / 60000), {}, numbers(seen)
    end_minute(rest, minute)
    for i = 1, #have do
      -- The difference is negative if a guest was retired and its figures restarted at 0.
      counts[i] = math.max(0, tonumber(have[i]) - (old[i] or 0))
    end
    counts[#counts + 1] = fresh
    counts[#counts + 1] = tonumber(ARGV.want)
    rest = add_period(rest, minute, counts, 60)
  end
  text = all .. rest
  redis.pcall('SET', KEYS.hour, text, 'PX', stats_ttl)
  return text
end

local now = now_ms()
local margin, lead = tonumber(ARGV.margin_ms), tonumber(ARGV.lead_ms)
local hour_text = redis.call('GET', KEYS.hour)
local leads, verdicts = redis.call('LRANGE', KEYS.leads, 0, -1), redis.call('LRANGE', KEYS.verdicts, 0, -1)
-- An idle identity has none of these keys, so one command replaces their reads.
local busy = redis.call('EXISTS', KEYS.orders, KEYS.journal, KEYS.leases, KEYS.tickets, KEYS.seen,
  KEYS.attempts) > 0
local attempts, lines, next_order = {}, {}, {}
if busy then
  attempts = redis.call('HGETALL', KEYS.attempts)
  purge_orders(now)
  lines = redis.call('HGETALL', KEYS.journal)
  next_order = redis.call('ZRANGE', KEYS.orders, 0, 0, 'WITHSCORES')
end
local hour_used = redis.call('ZCOUNT', KEYS.spend, '(' .. ms(now - hour), '+inf')
local day_used = redis.call('ZCOUNT', KEYS.spend, '(' .. ms(now - day), '+inf')
drop_dead(KEYS.tokens, KEYS.stats, now + margin)
local have = stock_counts(now, margin, lead, not busy)
local ages, unknown, bought = {}, 0, 0
for i = 1, #lines, 2 do
  local placed, state = string.match(lines[i + 1], '^(%d+)|(%a)|')
  ages[#ages + 1] = now - tonumber(placed)
  unknown = unknown + (state == 'u' and 1 or 0)
  bought = bought + (is_bought(state) and 1 or 0)
end
local figures = redis.call('HGETALL', KEYS.stats)
hour_text = note_minute(hour_text, figures, now, ARGV.keep_ms ~= '0', have.fresh)
local ends = next_order[2] and math.max(1, tonumber(next_order[2]) - now) or 0
local pause = redis.call('GET', KEYS.paused)
local paused = pause and 1 or 0
pause = pause or ''
-- A pause with an end expires at its end, so its life is not extended.
local resumes = string.find(pause, '^[1-9]%d*|') and math.max(1, redis.call('PTTL', KEYS.paused)) or 0
-- The keys of an identity in use must not expire, but the keys of an abandoned identity must.
if ARGV.keep_ms ~= '0' then
  for _, key in ipairs({KEYS.tokens, KEYS.orders, KEYS.journal, KEYS.stats, KEYS.leads, KEYS.leases,
    KEYS.verdicts, KEYS.learned, KEYS.hour, KEYS.hours}) do
    redis.call('PEXPIRE', key, ARGV.keep_ms)
  end
  if resumes == 0 then
    redis.call('PEXPIRE', KEYS.paused, ARGV.keep_ms)
  end
end
return {paused, have.fresh, have.outliving, have.orders, have.waiting, have.expiry, have.look,
  ends, unknown, bought, hour_used, day_used, ages, leads, verdicts, figures,
  ARGV.hour == '1' and hour_text or '', pause, resumes, attempts, now}
