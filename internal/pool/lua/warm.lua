-- Stores a warm window until it is over, or removes all windows of an identity.
--
-- Uses   windows
-- KEYS   warm warmers
-- ARGV   tokens begins_ms ends_ms limit slack_ms caller caller_limit;
--        tokens: number of tokens, 0 = remove all windows
--        begins_ms, ends_ms: times, counted from now
--        limit: maximum number of the identity's windows
--        caller: name of a caller with a caller_limit, '' = a caller without a limit
--        caller_limit: maximum number of the caller's windows
-- Reply  1 the window is stored or not needed, 0 there are too many windows
-- Errors WRONGTYPE and OOM before any change
local now = now_ms()
local new = {tokens = tonumber(ARGV.tokens), begins = now + math.max(0, tonumber(ARGV.begins_ms)),
  ends = now + tonumber(ARGV.ends_ms)}
if new.tokens == 0 then
  redis.call('DEL', KEYS.warm, KEYS.warmers)
  return 1
end

-- covers reports whether the window a includes the window b, except for up to `give` ms at either
-- end. If a window has already begun, only its remaining part counts.
local function covers(a, b, give)
  local from, start = math.max(a.begins, now), math.max(b.begins, now)
  return a.tokens >= b.tokens and from <= start + give and a.ends >= b.ends - give
    and from <= b.ends and start <= a.ends
end

local windows = windows_of(now)
if new.begins >= new.ends then
  return 1
end
-- A retry or a repeated call means the same window but comes a little later. So the new window
-- replaces windows that differ by at most slack_ms, and spans the old and the new period. An older
-- window that wants more tokens stays unchanged. Otherwise repeated calls with fewer tokens would
-- extend that window again and again.
local slack = tonumber(ARGV.slack_ms)
local begins, ends, last, dropped, kept = new.begins, new.ends, new.ends, {}, {}
for _, w in ipairs(windows) do
  if covers(w, new, 0) then
    return 1
  end
  last = math.max(last, w.ends)
  if covers(new, w, slack) or (w.tokens == new.tokens and covers(w, new, slack)) then
    begins, ends = math.min(begins, w.begins), math.max(ends, w.ends)
    dropped[#dropped + 1] = w.member
  else
    kept[#kept + 1] = w.member
  end
end

-- If the caller has no limit, the windows of callers with a limit do not count against the limit of
-- the identity. So they never prevent a window of a caller without a limit.
local caller, maker = ARGV.caller, pairs_of(redis.call('HGETALL', KEYS.warmers))
local own, limited, makers = 0, 0, {}
for _, member in ipairs(kept) do
  if maker[member] then
    limited = limited + 1
    makers[#makers + 1] = {member, maker[member]}
  end
  if maker[member] == caller then
    own = own + 1
  end
end
local most = tonumber(ARGV.limit)
if caller == '' and #kept - limited >= most
  or caller ~= '' and (#kept >= most or own >= tonumber(ARGV.caller_limit)) then
  return 0
end

for _, member in ipairs(dropped) do
  redis.call('ZREM', KEYS.warm, member)
end
local member = ms(begins) .. '|' .. ms(new.tokens)
if caller ~= '' then
  makers[#makers + 1] = {member, caller}
end
redis.call('ZADD', KEYS.warm, ms(ends), member)
-- The hash is written anew, without windows that have ended or that an older version of poold
-- dropped.
redis.call('DEL', KEYS.warmers)
for _, made in ipairs(makers) do
  redis.call('HSET', KEYS.warmers, made[1], made[2])
end
-- The scores decide when windows end, because the TTLs of the embedded server are coarse.
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ms(last - now + 60000))
end
return 1
