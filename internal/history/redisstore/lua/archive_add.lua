-- Keeps records of orders that ended, each once, and counts them in the figures of their
-- days.
--
-- KEYS  of each record: mark of the order, records of its site, records of its status,
--       figures of its day, its alias
-- ARGV  1 how long they are kept, ms  2 most records of a site  3 most of a status;
--       of each record: Unix ms of the end, the record, which begins with the order, what
--       the mark says, what the alias says ('' = it has none), how many figures there are,
--       figure and number of each
-- Answer: how many were not there before.
local keep = tonumber(ARGV[1])
for i = 1, #KEYS, 5 do
  expect('ZCARD', i + 1, i + 2)
  expect('HLEN', i + 3)
end
local new, at, most = 0, 4, {}
for i = 1, #KEYS, 5 do
  local figures = at + 5
  local behind = figures + 2 * tonumber(ARGV[at + 4])
  if redis.call('SET', KEYS[i], ARGV[at + 2], 'NX', 'PX', keep) then
    new = new + 1
    for list = 1, 2 do
      redis.call('ZADD', KEYS[i + list], ARGV[at], ARGV[at + 1])
      most[KEYS[i + list]] = tonumber(ARGV[list + 1])
    end
    for n = figures, behind - 1, 2 do
      redis.call('HINCRBY', KEYS[i + 3], ARGV[n], ARGV[n + 1])
    end
    redis.call('PEXPIRE', KEYS[i + 3], keep)
    if ARGV[at + 3] ~= '' then
      redis.call('SET', KEYS[i + 4], ARGV[at + 3], 'PX', keep)
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
