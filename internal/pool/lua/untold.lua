-- Shared by the scripts in which orders fail: scripts.go puts it between journal.lua
-- and theirs.

-- What a caller is to be answered is kept for so many ms; it asks twice a second.
local untold_kept = 60000

-- longest_waiting is the ticket that came first of those at a replica, else of all, with
-- its arrival, and whether that replica alone holds it.
local function longest_waiting(tickets, seen, replica)
  local all = redis.call('ZRANGE', tickets, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if string.find(all[i], ':' .. replica .. ':', 1, true) then
      return all[i], all[i + 1], true
    end
    if string.find(all[i], ':key:', 1, true) and redis.call('ZSCORE', seen, all[i] .. '|' .. replica) then
      return all[i], all[i + 1], false
    end
  end
  return all[1], all[2], false
end

-- answer_one answers one caller that an order has failed, where one is lacking now: more
-- callers wait than orders and fresh tokens are left. Its ticket is given up, as if it
-- had left, so that nobody places another order for it; take.lua tells it. k names the
-- keys, replica is who worked on the order. It answers true where other replicas must
-- hear of it.
local function answer_one(k, margin, replica, answer)
  if answer == '' then
    return false
  end
  local now = now_ms()
  local have = counts(k.tokens, k.orders, k.tickets, k.seen, now, margin, 0)
  if have[2] + have[3] >= have[4] then
    return false
  end
  local ticket, arrival, alone = longest_waiting(k.tickets, k.seen, replica)
  redis.call('ZREM', k.tickets, ticket)
  redis.call('ZREM', k.seen, ticket)
  redis.call('ZREMRANGEBYSCORE', k.untold, '-inf', ms(now))
  redis.call('ZADD', k.untold, ms(now + untold_kept), ticket .. '|' .. ms(tonumber(arrival)) .. '|' .. answer)
  redis.call('PEXPIRE', k.untold, untold_kept)
  return not alone
end
