-- Shared: what settle and fail have in common. Needs stock_counts.
--
-- KEYS   tickets seen failures sale
-- ARGV   order call channel identity owner margin_ms answer

-- failures_ms is how long a failed caller's answer is kept; the caller asks twice a second.
local failures_ms = 60000

-- ended_before returns the reply for an order that is gone: the first reply to this very
-- call if that was lost (1, or 2 for a repeated token), else 0.
local function ended_before()
  local last, rest = string.match(redis.call('GET', KEYS.sale) or '', '^([^|]*)|(.*)$')
  return last ~= ARGV.call and 0 or rest == 'repeated' and 2 or 1
end

-- longest_waiting returns the oldest ticket at a replica, else of all, its arrival, and
-- whether that replica alone holds it.
local function longest_waiting(replica)
  local all = redis.call('ZRANGE', KEYS.tickets, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if string.find(all[i], ':' .. replica .. ':', 1, true) then
      return all[i], all[i + 1], true
    end
    if string.find(all[i], ':key:', 1, true) and redis.call('ZSCORE', KEYS.seen, all[i] .. '|' .. replica) then
      return all[i], all[i + 1], false
    end
  end
  return all[1], all[2], false
end

-- answer_one fails one pending caller with ARGV.answer if more callers wait than orders and
-- fresh tokens are left. Its ticket is removed, so that no other order is placed for it, and
-- take.lua delivers the answer. `replica` is the order's owner. Returns true if other
-- replicas must be notified.
local function answer_one(replica)
  if ARGV.answer == '' then
    return false
  end
  local now = now_ms()
  local have = stock_counts(now, tonumber(ARGV.margin_ms), 0)
  if have.outliving + have.orders >= have.waiting then
    return false
  end
  local ticket, arrival, alone = longest_waiting(replica)
  redis.call('ZREM', KEYS.tickets, ticket)
  redis.call('ZREM', KEYS.seen, ticket)
  redis.call('ZREMRANGEBYSCORE', KEYS.failures, '-inf', ms(now))
  redis.call('ZADD', KEYS.failures, ms(now + failures_ms), ticket .. '|' .. ms(tonumber(arrival)) .. '|' .. ARGV.answer)
  redis.call('PEXPIRE', KEYS.failures, failures_ms)
  return not alone
end

-- notify publishes how the order ended if a callback ended it, which has no owner. Otherwise
-- it publishes the identity if `wanted`.
local function notify(how, wanted)
  if ARGV.owner == '' then
    publish(ARGV.channel, ARGV.identity .. ' ' .. ARGV.order .. ' ' .. how)
  elseif wanted then
    publish(ARGV.channel, ARGV.identity)
  end
end
