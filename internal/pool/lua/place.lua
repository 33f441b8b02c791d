-- Creates an order beside the stock if the depth sentence allows it,
-- outliving + orders - waiting < depth, and the target's budgets and the bound on
-- failing attempts do.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 paused
--       8 leases  9 spend  10 junk  11 ended  12 attempts
-- ARGV  1 order id  2 depth  3 margin, ms  4 lead, ms  5 life of the order, ms
--       6 owner  7 lease, ms  8 price  9 facts  10 most an hour  11 most a day
--       12 not after this time, Unix ms (0 = any)
-- Reply: 1 placed (or already there) / 0 refused / -1 paused / -2 no budget / -3
--       too late / -4 bounded; the ms until the budget or the bound allows one, else 0;
--       with -4, 1 if the parameters are rejected and the reason.
local now = now_ms()
local order, margin, lead = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local per_hour, per_day = tonumber(ARGV[10]), tonumber(ARGV[11])
expect('LLEN', 1)
expect('ZCARD', 2, 4, 5, 8, 9, 11)
expect('HLEN', 3, 6)
local attempts = attempts_of(KEYS[12])
purge_orders(KEYS[2], KEYS[3], KEYS[8], KEYS[6], KEYS[9], KEYS[10], KEYS[11], now)
local have = counts(KEYS[1], KEYS[2], KEYS[4], KEYS[5], now, margin, lead)
if redis.call('ZSCORE', KEYS[2], order) then
  return {1, 0}
end
if redis.call('EXISTS', KEYS[7]) == 1 then
  return {-1, 0}
end
local last = tonumber(ARGV[12])
if last > 0 and now > last then
  return {-3, 0}
end
if have[2] + have[3] - have[4] >= tonumber(ARGV[2]) then
  return {0, 0}
end
local held = attempts_wait(attempts, now)
if held > 0 then
  return {-4, held, attempts.hopeless and 1 or 0, attempts.reason}
end
if per_hour > 0 or per_day > 0 then
  local wait = budget_wait(KEYS[9], now, per_hour, per_day)
  if wait > 0 then
    return {-2, wait}
  end
  book(KEYS[9], now, order)
end
attempts_probe(KEYS[12], attempts, now)
redis.call('ZADD', KEYS[2], ms(now + tonumber(ARGV[5])), order)
redis.call('ZADD', KEYS[8], ms(now + tonumber(ARGV[7])), order)
write_entry(KEYS[3], order, {placed = now, state = 'i', owner = ARGV[6], unsolved = 0,
  price = tonumber(ARGV[8]), task = '', facts = ARGV[9]})
for _, i in ipairs({2, 3, 8}) do
  redis.call('PEXPIRE', KEYS[i], stats_ttl)
end
return {1, 0}
