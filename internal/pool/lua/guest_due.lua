-- Takes guests that are due for a look. They are due again after retry_ms, in case their
-- replica dies.
--
-- KEYS   guests
-- ARGV   limit retry_ms, then identities;
--        limit: guests in one reply
--        identities: are taken, due or not; without identities, the guests that are due
-- Reply  the time, Unix ms; then their identities
-- Errors WRONGTYPE and OOM before any change
local now = now_ms()
local due = {unpack(ARGV, ARGV.size + 1)}
if #due == 0 then
  due = redis.call('ZRANGEBYSCORE', KEYS.guests, '-inf', ms(now), 'LIMIT', 0, ARGV.limit)
end
local answer = {now}
for _, id in ipairs(due) do
  if redis.call('ZSCORE', KEYS.guests, id) then
    redis.call('ZADD', KEYS.guests, ms(now + tonumber(ARGV.retry_ms)), id)
    answer[#answer + 1] = id
  end
end
return answer
