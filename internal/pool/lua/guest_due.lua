-- Gives a replica the leases of guests that are due for a check. The guests become due again after
-- retry_ms, in case this replica dies.
--
-- KEYS   guests
-- ARGV   limit retry_ms, then identities;
--        limit: maximum number of guests in a reply
--        identities: guests to lease even if they are not due; without identities, due guests are leased
-- Reply  {now identities};
--        now: Unix ms
--        identities: identities of the leased guests
-- Errors OOM before any change
local now = now_ms()
local due = {unpack(ARGV, ARGV.size + 1)}
if #due == 0 then
  due = redis.call('ZRANGEBYSCORE', KEYS.guests, '-inf', ms(now), 'LIMIT', 0, ARGV.limit)
end
local taken = {}
for _, id in ipairs(due) do
  if redis.call('ZSCORE', KEYS.guests, id) then
    redis.call('ZADD', KEYS.guests, ms(now + tonumber(ARGV.retry_ms)), id)
    taken[#taken + 1] = id
  end
end
return {now, taken}
