-- Adds figures about requests for guests to the row of all guests. A repeated call adds nothing.
--
-- KEYS   row mark;
--        mark: marks this call as counted
-- ARGV   (for each figure its name and value)
-- Reply  1 the figures were added, by this try or an earlier one
-- Errors none for lack of free memory
writable('HDEL', KEYS.row)
if redis.call('SET', KEYS.mark, '', 'NX', 'PX', 10000) then
  local figures = {}
  for i = 1, #ARGV, 2 do
    figures[ARGV[i]] = tonumber(ARGV[i + 1])
  end
  add_figures(KEYS.row, figures)
end
return 1
