-- Counts requests by how they came by their token.
--
-- KEYS  1 savings of the caller's day  2 mark of this call
-- ARGV  source and number, of each source
-- Answer: 1.
local day = savings_of(KEYS[1], now_ms())
writable('HDEL', day)
local requests = {}
for i = 1, #ARGV, 2 do
  requests[ARGV[i]] = tonumber(ARGV[i + 1])
end
save(day, KEYS[2], requests)
return 1
