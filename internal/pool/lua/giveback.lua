-- Puts a token back whose caller hung up before a byte of the answer was
-- written. Each hand-out is taken back at most once.
--
-- KEYS  1 tokens  2 marker of this hand-out  3 tickets  4 stats
-- ARGV  1 element  2 margin, ms  3 channel  4 identity
-- Answer: 1 put back, 0 done before or no longer usable.
local now = now_ms()
local left = dies(ARGV[1]) - now
expect('LLEN', 1)
expect('ZCARD', 3)
writable('HDEL', KEYS[4])
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', math.max(60000, left)) then
  return 0
end
local late = left < tonumber(ARGV[2])
count(KEYS[4], {returned = 1, expired = late and 1 or 0})
if late then
  return 0
end
insert(KEYS[1], ARGV[1])
if redis.call('ZCARD', KEYS[3]) > 0 then
  publish(ARGV[3], ARGV[4])
end
return 1
