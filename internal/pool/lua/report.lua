-- Counts how a token did, once.
--
-- KEYS  1 sale  2 stats  3 verdicts
-- ARGV  1 '1' accepted, '0' rejected  2 number of this call
-- Answer: 1, the token's age in ms, provider|task; 0 there is no such sale, or
--       it is too long ago; -1 it was reported before.
local sale = redis.call('GET', KEYS[1])
if not sale then
  return {0, 0, ''}
end
local call, born, rest, reported = string.match(sale, '^([^|]*)|(%d+)|([^|]*|[^|]*)(.*)$')
if not call or (reported ~= '' and call ~= ARGV[2]) then
  return {born and -1 or 0, 0, ''}
end
local answer = {1, now_ms() - tonumber(born), rest}
if reported ~= '' then
  return answer -- to this very call, whose answer was lost
end
expect('HLEN', 2)
expect('LLEN', 3)
redis.call('SET', KEYS[1], ARGV[2] .. '|' .. born .. '|' .. rest .. '|reported', 'PX',
  math.max(1000, redis.call('PTTL', KEYS[1])))
count(KEYS[2], {accepted = tonumber(ARGV[1]), rejected = 1 - tonumber(ARGV[1])})
redis.call('LPUSH', KEYS[3], ARGV[1])
redis.call('LTRIM', KEYS[3], 0, 19)
redis.call('PEXPIRE', KEYS[3], stats_ttl)
return answer
