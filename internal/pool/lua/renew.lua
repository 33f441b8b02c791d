-- Renews the leases of one replica's orders, or lets go of them.
--
-- KEYS  1 journal  2 leases
-- ARGV  1 owner  2 lease, ms (0 = let go)  3.. order ids
-- Answer: for each order 1 if it is still this owner's, else 0.
local now = now_ms()
writable('ZREM', KEYS[2])
local mine = {}
for i = 3, #ARGV do
  local e = entry_of(KEYS[1], ARGV[i])
  mine[i - 2] = 0
  if e and e.owner == ARGV[1] and e.state ~= 'u' then
    redis.call('ZADD', KEYS[2], ms(now + tonumber(ARGV[2])), ARGV[i])
    mine[i - 2] = 1
  end
end
return mine
