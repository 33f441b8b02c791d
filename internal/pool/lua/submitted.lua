-- Writes the provider's task id into the journal, if the order still stands.
-- Who knows the task owns the order, also after its lease has ended: until now
-- nobody could do anything for it.
--
-- KEYS  1 orders  2 journal  3 leases  4 stats
-- ARGV  1 order id  2 task id, escaped  3 owner  4 lease, ms
-- Answer: 1 written, 0 the order is gone.
expect('ZCARD', 1, 3)
writable('HDEL', KEYS[4])
local e = entry_of(KEYS[2], ARGV[1])
if not e or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
count(KEYS[4], {bought = is_bought(e.state) and 0 or 1})
e.state, e.task, e.owner = 'b', ARGV[2], ARGV[3]
write_entry(KEYS[2], ARGV[1], e)
redis.call('ZADD', KEYS[3], ms(now_ms() + tonumber(ARGV[4])), ARGV[1])
return 1
