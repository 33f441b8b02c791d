-- Keeps a record of an order that ended, once, and counts it in the figures of its day.
--
-- KEYS  1 mark of the order  2 records of its site  3 records of its status  4 figures of
--       its day
-- ARGV  1 Unix ms of the end  2 the record, which begins with the order  3 what the mark
--       says  4 how long it is kept, ms  5 most records of a site  6 most of a status
--       7.. figure and number, of each figure
-- Answer: 1 kept, 0 it was there already.
local keep = tonumber(ARGV[4])
expect('ZCARD', 2, 3)
expect('HLEN', 4)
if not redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', keep) then
  return 0
end
for i = 2, 3 do
  redis.call('ZADD', KEYS[i], ARGV[1], ARGV[2])
  redis.call('ZREMRANGEBYRANK', KEYS[i], 0, -1 - tonumber(ARGV[i + 3]))
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. ms(now_ms() - keep))
  redis.call('PEXPIRE', KEYS[i], keep)
end
for i = 7, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[4], ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[4], keep)
return 1
