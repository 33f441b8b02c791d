-- Shared: functions that settle.lua and fail.lua have in common. The file stock_counts.lua must
-- come first.
--
-- KEYS   tickets seen failures sale
-- ARGV   order call channel identity owner margin_ms answer

-- failures_ms is how long Redis stores the answer for a failed caller. This is more than enough,
-- because the caller's queue calls take.lua twice a second.
local failures_ms = 60000

-- ended_before returns the reply for an order that no longer exists. If an earlier try of the same
-- call ended the order, the result is the reply of that try (1, or 2 for a repeated token).
-- Otherwise the function returns 0.
local function ended_before()
  local last, rest = string.match(redis.call('GET', KEYS.sale) or '', '^([^|]*)|(.*)$')
  return last ~= ARGV.call and 0 or rest == 'repeated' and 2 or 1
end

-- longest_waiting returns the oldest ticket of a replica. If the replica has none, it returns the
-- oldest ticket of all replicas. longest_waiting also returns the ticket's arrival, and whether only
-- this replica holds the ticket.
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

-- answer_one ends the wait of one pending caller with ARGV.answer, if the pending callers outnumber
-- the remaining orders and fresh tokens. answer_one removes the caller's ticket, so that no other
-- order is placed for this caller, and stores the answer for take.lua. `replica` is the order's
-- owner. The result is true if other replicas must be notified.
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

-- notify publishes the end of an order. If a callback ended the order (the owner is then ''), the
-- message says how. Otherwise the message is the identity, and it is published only if `wanted` is
-- true.
local function notify(how, wanted)
  if ARGV.owner == '' then
    publish(ARGV.channel, ARGV.identity .. ' ' .. ARGV.order .. ' ' .. how)
  elseif wanted then
    publish(ARGV.channel, ARGV.identity)
  end
end
