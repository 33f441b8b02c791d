-- Ends an order without a token.
--
-- KEYS  1 orders  2 journal  3 stats
-- ARGV  1 order id  2 '1' if it counts as failed, '0' if nothing was bought
-- Answer: 1 removed, 0 there was no such order.
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HDEL', KEYS[2], ARGV[1])
if ARGV[2] == '1' then
  redis.call('HINCRBY', KEYS[3], 'failed', 1)
  redis.call('PEXPIRE', KEYS[3], stats_ttl)
end
return 1
