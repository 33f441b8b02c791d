-- Takes guests that are to be looked at. Where who took them dies over that, they are
-- due again in a while.
--
-- KEYS  1 guests
-- ARGV  1 how many at most  2 that while, ms  3.. identities: those of them that are
--       guests are taken, due or not; without any those that are due
-- Answer: the time, Unix ms; then their identities.
local now = now_ms()
local due = {unpack(ARGV, 3)}
if #due == 0 then
  due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms(now), 'LIMIT', 0, ARGV[1])
end
local answer = {now}
for _, id in ipairs(due) do
  if redis.call('ZSCORE', KEYS[1], id) then
    redis.call('ZADD', KEYS[1], ms(now + tonumber(ARGV[2])), id)
    answer[#answer + 1] = id
  end
end
return answer
