-- Adds figures of requests for guests to the row of all guests, once.
--
-- KEYS  1 row  2 mark of this call
-- ARGV  name, value, …
-- Answer: 1 added, also by this very call before.
expect('HLEN', 1)
writable('HDEL', KEYS[1])
if redis.call('SET', KEYS[2], '', 'NX', 'PX', 10000) then
  local figures = {}
  for i = 1, #ARGV, 2 do
    figures[ARGV[i]] = tonumber(ARGV[i + 1])
  end
  count(KEYS[1], figures)
end
return 1
