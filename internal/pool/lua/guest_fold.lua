-- Adds a guest's figures to the row of all guests, once.
--
-- KEYS  1 row  2 folded  3 hold
-- ARGV  1 name of the figures  2 not after this time, Unix ms  3 how long the name is
--       known, ms: longer than the figures themselves  4.. name, value, …
-- Answer: 1 added, 0 they were before, -1 too late, -2 a survey is under way.
local now = now_ms()
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 0
end
-- Who is later than that may have read the figures before another replica added them,
-- and their name may be forgotten by now.
if now > tonumber(ARGV[2]) then
  return -1
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return -2
end
expect('HLEN', 1)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ms(now))
redis.call('ZADD', KEYS[2], ms(now + tonumber(ARGV[3])), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local figures = {folds = 1}
for i = 4, #ARGV, 2 do
  figures[ARGV[i]] = tonumber(ARGV[i + 1])
end
count(KEYS[1], figures)
return 1
