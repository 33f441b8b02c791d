-- Stores lines of the audit, each once, and adds them to the figures of their days.
--
-- KEYS   (for each line its ITSKEYS)
-- ARGV   keep_ms limit, then for each line a LINE and its figures as name, number, …;
--        keep_ms: life of the lines
--        limit: maximum number of lines in a list
-- ITSKEYS  lines day
-- LINE   at line figures;
--        at: Unix ms
--        figures: number of the figures
-- Reply  the number of new lines
-- Errors WRONGTYPE and OOM before any change
local keep = tonumber(ARGV.keep_ms)
for i = 0, #KEYS - 1, ITSKEYS.size do
  expect('ZCARD', KEYS[i + ITSKEYS.lines])
  expect('HLEN', KEYS[i + ITSKEYS.day])
end
local oldest, new, at, lists = now_ms() - keep, 0, ARGV.size, {}
for i = 0, #KEYS - 1, ITSKEYS.size do
  local list, day = KEYS[i + ITSKEYS.lines], KEYS[i + ITSKEYS.day]
  local moment = ARGV[at + LINE.at]
  local figures = at + LINE.size
  local behind = figures + 2 * tonumber(ARGV[at + LINE.figures])
  -- Lines before the time `oldest` are removed below, so a retry would count them
  -- again.
  if tonumber(moment) >= oldest and redis.call('ZADD', list, 'NX', moment, ARGV[at + LINE.line]) == 1 then
    new = new + 1
    for n = figures + 1, behind, 2 do
      redis.call('HINCRBY', day, ARGV[n], ARGV[n + 1])
    end
    redis.call('PEXPIRE', day, keep)
    lists[list] = true
  end
  at = behind
end
for list in pairs(lists) do
  local over = redis.call('ZCARD', list) - tonumber(ARGV.limit)
  if over > 0 then
    redis.call('ZREM', list, unpack(redis.call('ZRANGE', list, 0, over - 1)))
  end
  redis.call('ZREMRANGEBYSCORE', list, '-inf', '(' .. ms(oldest))
  redis.call('PEXPIRE', list, keep)
end
return new
