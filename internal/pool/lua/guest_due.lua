-- Takes guests that are to be looked at. Where who took them dies over that, they are
-- due again in a while.
--
-- KEYS  1 guests
-- ARGV  1 how many at most  2 that while, ms
-- Answer: the time, Unix ms; then their identities.
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms(now), 'LIMIT', 0, ARGV[1])
local answer = {now}
for i, id in ipairs(due) do
  redis.call('ZADD', KEYS[1], ms(now + tonumber(ARGV[2])), id)
  answer[i + 1] = id
end
return answer
