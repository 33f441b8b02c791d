-- Ends a survey of all guests: what it needs to know of figures that were set apart.
--
-- KEYS  1 row  2 folded  3 hold
-- ARGV  1 name of this survey  2.. names of figures
-- Answer: how many were ever added to the row; then for each 1 if it was, else 0.
if redis.call('GET', KEYS[3]) == ARGV[1] then
  redis.call('DEL', KEYS[3])
end
local answer = {tonumber(redis.call('HGET', KEYS[1], 'folds') or 0)}
for i = 2, #ARGV do
  answer[i] = redis.call('ZSCORE', KEYS[2], ARGV[i]) and 1 or 0
end
return answer
