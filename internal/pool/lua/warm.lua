-- Keeps a window until it is over, or ends all of them.
--
-- KEYS  1 warm  2 warmers
-- ARGV  1 tokens (0 = end all)  2 ms until it begins  3 ms until it ends
--       4 most windows  5 slack, ms  6 caller, where it has a limit of its own, else ""
--       7 most windows of this caller
-- Answer: 1 what was asked for holds, 0 there are too many windows.
local now = now_ms()
local new = {tokens = tonumber(ARGV[1]), begins = now + math.max(0, tonumber(ARGV[2])),
  ends = now + tonumber(ARGV[3])}
if new.tokens == 0 then
  redis.call('DEL', KEYS[1], KEYS[2])
  return 1
end

-- covers reports whether b asks for nothing that a does not, but for as long as
-- `give` at either end; what has begun begins now.
local function covers(a, b, give)
  local from, start = math.max(a.begins, now), math.max(b.begins, now)
  return a.tokens >= b.tokens and from <= start + give and a.ends >= b.ends - give
    and from <= b.ends and start <= a.ends
end

local windows = windows_of(KEYS[1], now)
if new.begins >= new.ends then
  return 1
end
-- The same moment asked for again, by a client or because an answer was lost,
-- comes out a little earlier or later. So the new window covers others give or
-- take the slack, and is then made as long as both. An older one that wants more
-- stays as it is: calls again and again for fewer would make it last for ever.
local slack = tonumber(ARGV[5])
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

-- Callers with a limit fill only the room that others leave, and what they have
-- takes none from those without: nobody without a limit is shut out by them.
local caller, entries, maker = ARGV[6], redis.call('HGETALL', KEYS[2]), {}
for i = 1, #entries, 2 do
  maker[entries[i]] = entries[i + 1]
end
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
local most = tonumber(ARGV[4])
if caller == '' and #kept - limited >= most
  or caller ~= '' and (#kept >= most or own >= tonumber(ARGV[7])) then
  return 0
end

for _, member in ipairs(dropped) do
  redis.call('ZREM', KEYS[1], member)
end
local member = ms(begins) .. '|' .. ms(new.tokens)
if caller ~= '' then
  makers[#makers + 1] = {member, caller}
end
redis.call('ZADD', KEYS[1], ms(ends), member)
-- Written anew, it forgets the windows that are over, or that a replica dropped
-- which does not know of it.
redis.call('DEL', KEYS[2])
for _, made in ipairs(makers) do
  redis.call('HSET', KEYS[2], made[1], made[2])
end
-- What is over is told by its score; the embedded server's TTLs run by the tick.
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ms(last - now + 60000))
end
return 1
