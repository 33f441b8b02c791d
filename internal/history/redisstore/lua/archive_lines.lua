-- Keeps lines of the audit, each once, and counts them in the figures of their days.
--
-- KEYS  of each line: the lines of who it is about, figures of its day
-- ARGV  1 how long they are kept, ms  2 most lines of one; of each line: Unix ms, the
--       line, how many figures there are, figure and number of each
-- Answer: how many were not there before.
local keep = tonumber(ARGV[1])
for i = 1, #KEYS, 2 do
  expect('ZCARD', i)
  expect('HLEN', i + 1)
end
local oldest, new, at, lists = now_ms() - keep, 0, 3, {}
for i = 1, #KEYS, 2 do
  local behind = at + 3 + 2 * tonumber(ARGV[at + 2])
  -- An older one would be forgotten below, and count again where it is sent again.
  if tonumber(ARGV[at]) >= oldest and redis.call('ZADD', KEYS[i], 'NX', ARGV[at], ARGV[at + 1]) == 1 then
    new = new + 1
    for n = at + 3, behind - 1, 2 do
      redis.call('HINCRBY', KEYS[i + 1], ARGV[n], ARGV[n + 1])
    end
    redis.call('PEXPIRE', KEYS[i + 1], keep)
    lists[KEYS[i]] = true
  end
  at = behind
end
for list in pairs(lists) do
  local over = redis.call('ZCARD', list) - tonumber(ARGV[2])
  if over > 0 then
    redis.call('ZREM', list, unpack(redis.call('ZRANGE', list, 0, over - 1)))
  end
  redis.call('ZREMRANGEBYSCORE', list, '-inf', '(' .. ms(oldest))
  redis.call('PEXPIRE', list, keep)
end
return new
