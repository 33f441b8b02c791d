-- Ends a survey of all guests, and returns which figures were added to the row during it.
--
-- KEYS   row added hold
-- ARGV   survey, then names of figures
-- Reply  how many figures were ever added to the row; then for each name 1 if it was, else 0
-- Errors WRONGTYPE, after the hold was released
if redis.call('GET', KEYS.hold) == ARGV.survey then
  redis.call('DEL', KEYS.hold)
end
local answer = {tonumber(redis.call('HGET', KEYS.row, 'folds') or 0)}
for i = ARGV.size + 1, #ARGV do
  answer[#answer + 1] = redis.call('ZSCORE', KEYS.added, ARGV[i]) and 1 or 0
end
return answer
