-- Stores how a task of the compatible endpoints ended. Only the first end of a task is stored.
--
-- KEYS   task
-- ARGV   order failed delivered;
--        order: the order of the task's token, '' = the task failed
--        failed: how the task failed
--        delivered: 1 = the caller already has the token
-- Reply  1 the task has an end now, 0 the task no longer exists
-- Errors OOM before any change
if redis.call('EXISTS', KEYS.task) == 0 then
  return 0
end
if not redis.call('HGET', KEYS.task, 'order') then
  redis.call('HSET', KEYS.task, 'order', ARGV.order, 'failed', ARGV.failed, 'told', ARGV.delivered, 'holder', '')
end
return 1
