-- Ends an order with a token: removes the order and inserts the token, in one step. A second call
-- finds no order and changes nothing.
--
-- Uses   journal ended stock_counts attempts ending
-- KEYS   tokens orders journal tickets stats leads leases sale values ended seen failures attempts
-- ARGV   order birth_ms lifetime_ms lead_ms rest channel identity owner call seller sale_ms hash
--        submit answer margin_ms attempts_ms;
--        birth_ms: time from the placing to the birth of the token
--        lead_ms: lead time of the order for the identity's list, 0 = none
--        rest: list element without death and birth
--        owner: replica that must own the order; '' = a callback, which needs no lease
--        call: identifies this call and its retries
--        seller: provider|task
--        sale_ms: how long the sale is kept after the token's death
--        hash: hash of the token's text, '' = another token may have the same text
--        submit: ms from placing to submit|polls|callback (1/0)
--        answer: text for a caller whose wait ends if the token is repeated, '' = none
--        attempts_ms: minimum life of the hash `attempts`
-- Reply  1 the order was settled, 2 the order failed because an unexpired token has the same text,
--        0 the order does not exist, -1 another replica owns the order
-- Errors none for lack of free memory
local order = ARGV.order
writable('HDEL', KEYS.stats)
local e = entry_of(order)
if not e or not redis.call('ZSCORE', KEYS.orders, order) then
  return ended_before()
end
if ARGV.owner ~= '' and e.owner ~= ARGV.owner then
  return -1
end
remove(order)
local now = now_ms()
-- The birth is the time of the placing in the journal plus birth_ms. If the argument were the
-- token's age, the birth would be too late whenever Redis hangs during this call.
local born = math.min(now, e.placed + tonumber(ARGV.birth_ms))
local lifetime = tonumber(ARGV.lifetime_ms)
local dead = born + lifetime
local expired = dead <= now
redis.call('ZREMRANGEBYSCORE', KEYS.values, '-inf', ms(now))
if redis.call('ZSCORE', KEYS.values, ARGV.hash) then
  add_figures(KEYS.stats, {failed = 1, bought = is_bought(e.state) and 0 or 1})
  note_end(now, order, e, 'failed|repeated|' .. ARGV.seller .. '|' .. ARGV.submit .. '|-1')
  redis.call('SET', KEYS.sale, ARGV.call .. '|repeated', 'PX', 60000)
  attempts_failed(now, 'failed', 'the service sold this token before', e.placed, ARGV.attempts_ms)
  notify('the service sold this token before', answer_one(e.owner))
  return 2
end
local healed = redis.call('DEL', KEYS.attempts) == 1
if not expired then
  if ARGV.hash ~= '' then
    -- The hash stays until the token's death, even if the token is taken earlier.
    redis.call('ZADD', KEYS.values, ms(dead), ARGV.hash)
    redis.call('PEXPIRE', KEYS.values, math.max(lifetime, redis.call('PTTL', KEYS.values)))
  end
  insert(KEYS.tokens, ms(dead) .. '|' .. ms(born) .. '|' .. ARGV.rest)
end
add_figures(KEYS.stats, {solved = 1, expired = expired and 1 or 0, spent = e.price,
  bought = is_bought(e.state) and 0 or 1})
note_end(now, order, e, (expired and 'discarded||' or 'solved||') .. ARGV.seller .. '|' ..
  ARGV.submit .. '|' .. ms(born - e.placed))
redis.call('SET', KEYS.sale, ARGV.call .. '|' .. ms(born) .. '|' .. ARGV.seller, 'PX', ms(lifetime + tonumber(ARGV.sale_ms)))
if tonumber(ARGV.lead_ms) > 0 then
  redis.call('LPUSH', KEYS.leads, ARGV.lead_ms)
  redis.call('LTRIM', KEYS.leads, 0, 47)
  redis.call('PEXPIRE', KEYS.leads, stats_ttl)
end
notify('solved', healed or redis.call('ZCARD', KEYS.tickets) > 0)
return 1
