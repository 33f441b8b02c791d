-- Shared by the scripts that know orders and budgets: scripts.go puts it between
-- common.lua and theirs. A take does without, since Redis defines each function
-- anew at every call.

-- entry_of reads an order's line of the journal; nil where there is none.
local function entry_of(journal, order)
  local placed, state, owner, unsolved, price, task, facts = string.match(
    redis.call('HGET', journal, order) or '', '^(%d+)|(%a)|([^|]*)|(-?%d+)|(%d+)|([^|]*)|(.*)$')
  if not placed then
    return nil
  end
  return {placed = tonumber(placed), state = state, owner = owner,
    unsolved = tonumber(unsolved), price = tonumber(price), task = task, facts = facts}
end

-- write_entry is the inverse.
local function write_entry(journal, order, e)
  redis.call('HSET', journal, order, table.concat({ms(e.placed), e.state, e.owner,
    ms(e.unsolved), ms(e.price), e.task, e.facts}, '|'))
end

-- is_bought reports whether an order in this state was counted as bought.
local function is_bought(state)
  return state == 'b' or state == 'u'
end

-- remove takes an order out of everything but the stock.
local function remove(orders, journal, leases, order)
  redis.call('ZREM', orders, order)
  redis.call('HDEL', journal, order)
  redis.call('ZREM', leases, order)
end

-- ended_by answers the end of an order that is gone: where this very call ended it,
-- whose answer was lost, 1, or 2 where its token was a repeated one; else 0.
local function ended_by(sale, call)
  local last, rest = string.match(redis.call('GET', sale) or '', '^([^|]*)|(.*)$')
  return last ~= call and 0 or rest == 'repeated' and 2 or 1
end

-- note_end leaves how an order ended, in the step that ends it, for who keeps the
-- history: at most most_ended lines, which scripts.go sets. `detail` is what the journal
-- does not say: how|code|provider|task|ms from placing to submit|polls|callback (1/0)|ms
-- from placing to solve; -1 where it is not known.
local function note_end(ended, stats, now, order, e, detail)
  if most_ended == 0 then
    return
  end
  if redis.call('ZCARD', ended) >= most_ended then
    count(stats, {unrecorded = 1})
    return
  end
  redis.call('ZADD', ended, ms(now), table.concat({order, ms(e.placed), ms(e.unsolved),
    ms(e.price), e.task, detail, e.facts}, '|'))
  redis.call('PEXPIRE', ended, ended_ttl)
end

-- purge_orders forgets orders that nobody settled in their time. Those that may
-- have been bought count as lost; an intent was not, and its budget comes back.
-- A line that cannot be read says nothing, and is set aside.
local function purge_orders(orders, journal, leases, stats, spend, junk, ended, now)
  for _, order in ipairs(redis.call('ZRANGEBYSCORE', orders, '-inf', ms(now))) do
    local e = entry_of(journal, order)
    local line = redis.call('HGET', journal, order)
    remove(orders, journal, leases, order)
    if line and not e then
      set_aside(junk, stats, line)
    elseif e and e.state == 'i' then
      redis.call('ZREM', spend, order)
    elseif e then
      count(stats, {lost = 1, bought = is_bought(e.state) and 0 or 1, spent = e.price})
      note_end(ended, stats, now, order, e, 'lost||||-1|0|0|-1')
    end
  end
end

local hour, day = 3600000, 86400000

-- span_wait says how long it takes until a budget of a sliding span has room for one
-- more, in ms; 0 = it has now.
local function span_wait(spend, now, span, limit)
  if limit <= 0 then
    return 0
  end
  local from = '(' .. ms(now - span)
  local used = redis.call('ZCOUNT', spend, from, '+inf')
  if used < limit then
    return 0
  end
  -- Where the limit was lowered, more than the oldest must leave first.
  local blocking = redis.call('ZRANGEBYSCORE', spend, from, '+inf', 'WITHSCORES', 'LIMIT', used - limit, 1)
  return math.max(1, tonumber(blocking[2]) + span - now)
end

-- budget_wait is the longer of both spans' waits.
local function budget_wait(spend, now, per_hour, per_day)
  redis.call('ZREMRANGEBYSCORE', spend, '-inf', ms(now - day))
  return math.max(span_wait(spend, now, hour, per_hour), span_wait(spend, now, day, per_day))
end

-- book writes an order into a budget.
local function book(spend, now, order)
  redis.call('ZADD', spend, 'NX', ms(now), order)
  redis.call('PEXPIRE', spend, day + 60000)
end
