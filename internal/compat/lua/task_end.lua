-- Notes how a task of the compatible endpoints ended. The first end counts.
--
-- KEYS   task
-- ARGV   order failed delivered;
--        order: its token's order, '' = it failed
--        failed: how
--        delivered: 1 = its caller has the answer
-- Reply  1, or 0 if the task no longer exists
-- Errors WRONGTYPE and OOM before any change
expect('HLEN', KEYS.task)
if redis.call('EXISTS', KEYS.task) == 0 then
  return 0
end
if not redis.call('HGET', KEYS.task, 'order') then
  redis.call('HSET', KEYS.task, 'order', ARGV.order, 'failed', ARGV.failed, 'told', ARGV.delivered, 'holder', '')
end
return 1
