-- Stores lines of the audit, each once, and adds them to the figures of their days.
--
-- KEYS   (for each group its ITSKEYS)
-- ARGV   keep_ms limit, then for each group a GROUP, its lines as at, line, …, and its figures as
--        name, number, …;
--        keep_ms: life of the lines
--        limit: maximum number of lines in a list
-- ITSKEYS  lines day
-- GROUP  lines figures;
--        lines: number of the lines; at is in Unix ms
--        figures: number of the figures, which are those of one line
-- Reply  the number of new lines
-- Errors OOM before any change
local keep = tonumber(ARGV.keep_ms)
local behind, total, at = '(' .. ms(now_ms() - keep), 0, ARGV.size
for i = 0, #KEYS - 1, ITSKEYS.size do
  local list, day = KEYS[i + ITSKEYS.lines], KEYS[i + ITSKEYS.day]
  local first = at + GROUP.size + 1
  local figures = first + 2 * tonumber(ARGV[at + GROUP.lines])
  at = figures - 1 + 2 * tonumber(ARGV[at + GROUP.figures])
  -- New lines that are too old do not count, because they are removed at once, and a retry would add
  -- them again.
  local old = redis.call('ZCOUNT', list, '-inf', behind)
  local new = redis.call('ZADD', list, unpack(ARGV, first, figures - 1))
  new = new - (redis.call('ZREMRANGEBYSCORE', list, '-inf', behind) - old)
  if new > 0 then
    total = total + new
    for n = figures, at, 2 do
      redis.call('HINCRBY', day, ARGV[n], ms(new * tonumber(ARGV[n + 1])))
    end
    redis.call('PEXPIRE', day, keep)
    local over = redis.call('ZCARD', list) - tonumber(ARGV.limit)
    if over > 0 then
      redis.call('ZREM', list, unpack(redis.call('ZRANGE', list, 0, over - 1)))
    end
    redis.call('PEXPIRE', list, keep)
  end
end
return total
