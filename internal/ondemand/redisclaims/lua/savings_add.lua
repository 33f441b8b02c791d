-- Counts requests by the source of their token.
--
-- Uses   savings
-- KEYS   savings mark;
--        savings: savings of the day on the caller's clock
--        mark: exists if this call was counted
-- ARGV   (for each source its name and its number of requests)
-- Reply  1
-- Errors none for lack of free memory
local day = savings_of(now_ms())
writable('HDEL', day)
local requests = {}
for i = 1, #ARGV, 2 do
  requests[ARGV[i]] = tonumber(ARGV[i + 1])
end
save(day, KEYS.mark, requests)
return 1
