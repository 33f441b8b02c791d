-- Notes that the caller of a task asks for it, and lets the replica hold it that is asked,
-- where no living one does and the task has not ended.
--
-- KEYS  1 task
-- ARGV  1 caller  2 replica  3 lease, ms; 0 = look, and note nothing
-- Answer: identity, type, guest, made ms, ms that are left, order that served it, how it
--       failed, 1 = the replica holds it, how often it was asked for since it was served.
--       Nothing where there is no such task of this caller.
expect('HLEN', 1)
local t = {}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  t[stored[i]] = stored[i + 1]
end
if t.caller ~= ARGV[1] then
  return {}
end
local now, lease = now_ms(), tonumber(ARGV[3])
local order, failed, told = t.order or '', t.failed or '', tonumber(t.told or 0)
local mine = false
if lease > 0 and failed == '' then
  if order ~= '' then
    told = redis.call('HINCRBY', KEYS[1], 'told', 1)
  else
    redis.call('HSET', KEYS[1], 'asked', ms(now))
    mine = t.holder == '' or t.holder == ARGV[2] or tonumber(t.lease) <= now or tonumber(t.lease) > now + lease + clocks
    if mine then
      redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'lease', ms(now + lease))
    end
  end
end
return {t.identity, t.type, t.guest, tonumber(t.made), redis.call('PTTL', KEYS[1]), order, failed, mine and 1 or 0, told}
