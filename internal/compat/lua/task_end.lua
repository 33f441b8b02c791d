-- Notes how a task ended. The first end stands.
--
-- KEYS  1 task
-- ARGV  1 order that served it ('' = it failed)  2 how it failed  3 1 = its caller hears
--       of it at once
-- Answer: 1, or 0 where there is no such task any more.
expect('HLEN', 1)
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
if not redis.call('HGET', KEYS[1], 'order') then
  redis.call('HSET', KEYS[1], 'order', ARGV[1], 'failed', ARGV[2], 'told', ARGV[3], 'holder', '')
end
return 1
