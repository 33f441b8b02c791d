-- Renews or ends the leases of one replica's orders.
--
-- Uses   journal
-- KEYS   journal leases
-- ARGV   owner lease_ms, then order IDs;
--        lease_ms: 0 = the leases end now
-- Reply  for each order 1 if the given owner still owns the order, else 0
-- Errors none for lack of free memory
local now = now_ms()
writable('ZREM', KEYS.leases)
local mine = {}
for i = ARGV.size + 1, #ARGV do
  local e = entry_of(ARGV[i])
  mine[#mine + 1] = 0
  if e and e.owner == ARGV.owner and e.state ~= 'u' then
    redis.call('ZADD', KEYS.leases, ms(now + tonumber(ARGV.lease_ms)), ARGV[i])
    mine[#mine] = 1
  end
end
return mine
