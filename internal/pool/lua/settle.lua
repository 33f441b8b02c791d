-- Ends an order with a token: removes it and puts the token into the list in
-- one step. The second one to come finds no order and changes nothing.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 stats  6 leads  7 leases
--       8 sale  9 values  10 ended  11 seen  12 untold  13 attempts
-- ARGV  1 order id  2 birth, in ms after the order was placed  3 lifetime, ms
--       4 lead, ms (0 = nothing to be learned)  5 rest of the element
--       6 channel  7 identity  8 owner ('' = a callback, which needs no lease)
--       9 number of this call  10 provider|task of the sale  11 how long the sale
--       is kept beyond the token's life, ms  12 hash of the token ('' = another
--       token may have its text)  13 ms from placing to submit|polls|callback (1/0)
--       14 what a caller is answered that lacks the order now, where it ends as failed
--       ('' = nobody is)  15 margin, ms, with it  16 life of the attempts, ms
-- Answer: 1 settled, 2 ended as failed, since a living token of the identity has
--       the same text, 0 there is no such order, -1 it is another replica's.
local order = ARGV[1]
expect('LLEN', 1, 6)
expect('HLEN', 13)
expect('ZCARD', 2, 4, 7, 9, 10, 11, 12)
writable('HDEL', KEYS[5])
local e = entry_of(KEYS[3], order)
if not e or not redis.call('ZSCORE', KEYS[2], order) then
  return ended_by(KEYS[8], ARGV[9])
end
if ARGV[8] ~= '' and e.owner ~= ARGV[8] then
  return -1
end
remove(KEYS[2], KEYS[3], KEYS[7], order)
local now = now_ms()
-- The journal says when the order was placed. An age sent along would be wrong
-- by as long as this call waited for a Redis that hung.
local born = math.min(now, e.placed + tonumber(ARGV[2]))
local lifetime = tonumber(ARGV[3])
local dead = born + lifetime
local expired = dead <= now
redis.call('ZREMRANGEBYSCORE', KEYS[9], '-inf', ms(now))
if redis.call('ZSCORE', KEYS[9], ARGV[12]) then
  count(KEYS[5], {failed = 1, bought = is_bought(e.state) and 0 or 1})
  note_end(KEYS[10], KEYS[5], now, order, e, 'failed|repeated|' .. ARGV[10] .. '|' .. ARGV[13] .. '|-1')
  redis.call('SET', KEYS[8], ARGV[9] .. '|repeated', 'PX', 60000)
  attempts_failed(KEYS[13], now, 'failed', 'the service sold this token before', e.placed, ARGV[16])
  local elsewhere = answer_one({tokens = KEYS[1], orders = KEYS[2], tickets = KEYS[4],
    seen = KEYS[11], untold = KEYS[12]}, tonumber(ARGV[15]), e.owner, ARGV[14])
  if ARGV[8] == '' then
    publish(ARGV[6], ARGV[7] .. ' ' .. order .. ' the service sold this token before')
  elseif elsewhere then
    publish(ARGV[6], ARGV[7])
  end
  return 2
end
local healed = redis.call('DEL', KEYS[13]) == 1
if not expired then
  if ARGV[12] ~= '' then
    -- The hash stays until the token dies, taken or not.
    redis.call('ZADD', KEYS[9], ms(dead), ARGV[12])
    redis.call('PEXPIRE', KEYS[9], math.max(lifetime, redis.call('PTTL', KEYS[9])))
  end
  insert(KEYS[1], ms(dead) .. '|' .. ms(born) .. '|' .. ARGV[5])
end
count(KEYS[5], {solved = 1, expired = expired and 1 or 0, spent = e.price,
  bought = is_bought(e.state) and 0 or 1})
note_end(KEYS[10], KEYS[5], now, order, e, (expired and 'discarded||' or 'solved||') .. ARGV[10] .. '|' ..
  ARGV[13] .. '|' .. ms(born - e.placed))
redis.call('SET', KEYS[8], ARGV[9] .. '|' .. ms(born) .. '|' .. ARGV[10], 'PX', ms(lifetime + tonumber(ARGV[11])))
if tonumber(ARGV[4]) > 0 then
  redis.call('LPUSH', KEYS[6], ARGV[4])
  redis.call('LTRIM', KEYS[6], 0, 47)
  redis.call('PEXPIRE', KEYS[6], stats_ttl)
end
if ARGV[8] == '' then
  publish(ARGV[6], ARGV[7] .. ' ' .. order .. ' solved')
elseif healed or redis.call('ZCARD', KEYS[4]) > 0 then
  publish(ARGV[6], ARGV[7])
end
return 1
