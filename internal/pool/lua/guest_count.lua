-- Adds figures of requests for guests to the row of all guests, once a call.
--
-- KEYS   row mark;
--        mark: of this call
-- ARGV   (of each figure: its name and value)
-- Reply  1 added, also by an earlier try of this call
-- Errors WRONGTYPE before any change; works without free memory
expect('HLEN', KEYS.row)
writable('HDEL', KEYS.row)
if redis.call('SET', KEYS.mark, '', 'NX', 'PX', 10000) then
  local figures = {}
  for i = 1, #ARGV, 2 do
    figures[ARGV[i]] = tonumber(ARGV[i + 1])
  end
  add_figures(KEYS.row, figures)
end
return 1
