-- Notes that nobody can say whether an order was bought. It counts as bought and
-- stays until it must be over; only a callback can do anything for it.
--
-- KEYS  1 orders  2 journal  3 leases  4 stats
-- ARGV  1 order id  2 owner  3 how long it may still be solved, ms
-- Answer: 1 noted, 0 it is gone, known by now, or another replica's.
expect('ZCARD', 1, 3)
writable('HDEL', KEYS[4])
local e = entry_of(KEYS[2], ARGV[1])
local deadline = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or nil)
if not e or not deadline or e.owner ~= ARGV[2] or e.state ~= 's' then
  return e and e.state == 'u' and 1 or 0
end
count(KEYS[4], {bought = 1})
e.state = 'u'
write_entry(KEYS[2], ARGV[1], e)
deadline = math.min(deadline, now_ms() + tonumber(ARGV[3]))
redis.call('ZADD', KEYS[1], ms(deadline), ARGV[1])
-- Nobody is to adopt it: there is nothing to be done.
redis.call('ZADD', KEYS[3], ms(deadline), ARGV[1])
return 1
