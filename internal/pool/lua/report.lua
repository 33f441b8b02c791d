-- Counts a caller's report on whether a site accepted a token. Each token is counted at most once.
--
-- KEYS   sale stats verdicts
-- ARGV   accepted call;
--        accepted: 1 or 0
--        call: identifies this call and its retries
-- Reply  {outcome age_ms seller};
--        outcome: 1 the report was counted; 0 the sale is unknown or too old; -1 an earlier report was
--          counted
--        age_ms: time since the birth of the token
--        seller: provider|task
-- Errors OOM before any change
local sale = redis.call('GET', KEYS.sale)
if not sale then
  return {0, 0, ''}
end
local call, born, rest, reported = string.match(sale, '^([^|]*)|(%d+)|([^|]*|[^|]*)(.*)$')
if not call or (reported ~= '' and call ~= ARGV.call) then
  return {born and -1 or 0, 0, ''}
end
local answer = {1, now_ms() - tonumber(born), rest}
if reported ~= '' then
  return answer -- this call is a retry after a lost reply
end
redis.call('SET', KEYS.sale, ARGV.call .. '|' .. born .. '|' .. rest .. '|reported', 'PX',
  math.max(1000, redis.call('PTTL', KEYS.sale)))
add_figures(KEYS.stats, {accepted = tonumber(ARGV.accepted), rejected = 1 - tonumber(ARGV.accepted)})
redis.call('LPUSH', KEYS.verdicts, ARGV.accepted)
redis.call('LTRIM', KEYS.verdicts, 0, 19)
redis.call('PEXPIRE', KEYS.verdicts, stats_ttl)
return answer
