-- Ends a survey of all guests. Returns which of the given figures were added to the row during the
-- survey.
--
-- KEYS   row added hold
-- ARGV   survey, then nonces of figures;
--        survey: random name of the survey
-- Reply  {folds added};
--        folds: how often figures were added to the row since the row was created
--        added: for each nonce 1 if its figures were added, else 0
if redis.call('GET', KEYS.hold) == ARGV.survey then
  redis.call('DEL', KEYS.hold)
end
local added = {}
for i = ARGV.size + 1, #ARGV do
  added[#added + 1] = redis.call('ZSCORE', KEYS.added, ARGV[i]) and 1 or 0
end
return {tonumber(redis.call('HGET', KEYS.row, 'folds') or 0), added}
