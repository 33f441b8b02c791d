-- Stores records of ended orders, each once, and adds them to the figures of their days.
--
-- KEYS   (for each record its ITSKEYS)
-- ARGV   keep_ms site_limit status_limit, then for each record a RECORD and its figures as
--        name, number, …;
--        keep_ms: life of the records
--        site_limit, status_limit: maximum number of records in a list
-- ITSKEYS  mark site status day alias
-- RECORD ended record marked alias figures;
--        ended: Unix ms
--        marked: value of the mark
--        alias: value of the alias, '' = no alias
--        figures: number of the figures
-- Reply  the number of new records
-- Errors OOM before any change
local keep = tonumber(ARGV.keep_ms)
local new, at, most = 0, ARGV.size, {}
for i = 0, #KEYS - 1, ITSKEYS.size do
  local figures = at + RECORD.size
  local behind = figures + 2 * tonumber(ARGV[at + RECORD.figures])
  if redis.call('SET', KEYS[i + ITSKEYS.mark], ARGV[at + RECORD.marked], 'NX', 'PX', keep) then
    new = new + 1
    local site, status, day = KEYS[i + ITSKEYS.site], KEYS[i + ITSKEYS.status], KEYS[i + ITSKEYS.day]
    redis.call('ZADD', site, ARGV[at + RECORD.ended], ARGV[at + RECORD.record])
    redis.call('ZADD', status, ARGV[at + RECORD.ended], ARGV[at + RECORD.record])
    most[site], most[status] = tonumber(ARGV.site_limit), tonumber(ARGV.status_limit)
    for n = figures + 1, behind, 2 do
      redis.call('HINCRBY', day, ARGV[n], ARGV[n + 1])
    end
    redis.call('PEXPIRE', day, keep)
    if ARGV[at + RECORD.alias] ~= '' then
      redis.call('SET', KEYS[i + ITSKEYS.alias], ARGV[at + RECORD.alias], 'PX', keep)
    end
  end
  at = behind
end
for list, n in pairs(most) do
  local over = redis.call('ZCARD', list) - n
  if over > 0 then
    redis.call('ZREM', list, unpack(redis.call('ZRANGE', list, 0, over - 1)))
  end
  redis.call('ZREMRANGEBYSCORE', list, '-inf', '(' .. ms(now_ms() - keep))
  redis.call('PEXPIRE', list, keep)
end
return new
