-- Ends an order without a token.
--
-- KEYS  1 orders  2 journal  3 stats  4 leases  5 spend  6 sale
--       7 ended  8 tokens  9 tickets  10 seen  11 untold  12 attempts
-- ARGV  1 order id  2 '1' if it was bought and counts as failed, 'late' if its price is
--       spent beside that, 'lost' if the service may have solved it, '0' if nothing was
--       bought and its budget comes back  3 owner ('' = a callback)
--       4 channel  5 identity  6 number of this call  7 what to tell others
--       8 how|code|provider|task|ms from placing to submit|polls|callback (1/0), for the
--       history ('' = nothing to be told)  9 what a caller is answered that lacks the
--       order now ('' = nobody is)  10 margin, ms, with it  11 what the end says of the
--       identity: refused, failed, hopeless or '' (nothing)  12 the reason, with 11
--       13 life of the attempts, ms, with 11
-- Answer: 1 removed, 0 there is no such order, -1 it is another replica's.
expect('LLEN', 8)
expect('ZCARD', 1, 4, 5, 7, 9, 10, 11)
expect('HLEN', 12)
writable('HDEL', KEYS[3])
local e = entry_of(KEYS[2], ARGV[1])
if not e or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return ended_by(KEYS[6], ARGV[6])
end
local bought, lost = ARGV[2] ~= '0', ARGV[2] == 'lost'
if (ARGV[3] ~= '' and e.owner ~= ARGV[3]) or (not bought and is_bought(e.state)) then
  return -1
end
remove(KEYS[1], KEYS[2], KEYS[4], ARGV[1])
redis.call('SET', KEYS[6], ARGV[6] .. '|', 'PX', 60000)
if bought then
  count(KEYS[3], {failed = lost and 0 or 1, lost = lost and 1 or 0, spent = (lost or ARGV[2] == 'late') and e.price or 0,
    bought = is_bought(e.state) and 0 or 1})
else
  redis.call('ZREM', KEYS[5], ARGV[1])
end
if ARGV[8] ~= '' then
  note_end(KEYS[7], KEYS[3], now_ms(), ARGV[1], e, ARGV[8] .. '|-1')
end
local began = attempts_failed(KEYS[12], now_ms(), ARGV[11], ARGV[12], e.placed, ARGV[13])
local elsewhere = answer_one({tokens = KEYS[8], orders = KEYS[1], tickets = KEYS[9],
  seen = KEYS[10], untold = KEYS[11]}, tonumber(ARGV[10]), e.owner, ARGV[9])
if ARGV[3] == '' then
  publish(ARGV[4], ARGV[5] .. ' ' .. ARGV[1] .. ' ' .. ARGV[7])
elseif elsewhere or began then
  publish(ARGV[4], ARGV[5])
end
return 1
