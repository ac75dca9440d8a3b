-- What verbs do with a line. This text stands where a verb says so: building these functions takes the server longer
-- than the common case of a lock that nobody else wants, so that case comes first.

-- [one.lua]

-- [order.lua]

-- Has a client told at the end: if the server refuses to write, it must not have said that somebody holds.
local function tell(line, kind, id, place)
  table.insert(line.told, place[CLIENT])
  table.insert(line.told, kind .. id .. struct.pack('>d', place[SEQ]) .. incarnation)
end

local function place_of(line, id)
  local place = line.places[id]
  if not place then
    local packed = redis.call('HGET', line.key, id)
    place = packed and cmsgpack.unpack(packed) or foreign()
    line.places[id] = place
  end
  return place
end

local function compatible(mode, of, taken, place)
  return (mode == 's' and place[MODE] == 's')
    or (mode == 'p' and place[MODE] == 'p' and of == place[OF] and taken + place[TAKE] <= of)
end

local function fits(line, place)
  return line.holders == 0 or compatible(line.mode, line.of, line.taken, place)
end

-- The line rule: lets in those at the front who now hold, and tells them; all but `silent`, who learns it anyway.
local function settle(line, silent)
  local part, index, length = 1, line.holders, string.byte(line.lengths, 1)
  while length do
    if index < length then
      local id = string.sub(order_of(line, part), index * 16 + 1, index * 16 + 16)
      local place = place_of(line, id)
      if not fits(line, place) then
        return
      end
      line.holders, line.inside = line.holders + 1, place[SEQ]
      line.mode, line.of, line.taken = place[MODE], place[OF], line.taken + place[TAKE]
      line.changed = true
      if id ~= silent then
        tell(line, 'H', id, place)
      end
      index = index + 1
    else
      part, index = part + 1, index - length
      length = string.byte(line.lengths, part)
    end
  end
end

-- Forgets a place or a grave, but for its id in the order.
local function forget(line, id, place)
  if place[STATE] >= RELEASED then
    line.graves = line.graves - 1
  elseif place[SEQ] <= line.inside then
    line.holders = line.holders - 1
    line.taken = line.holders > 0 and line.taken - place[TAKE] or 0
  end
  line.places[id], line.written[id], line.notes[id] = nil, nil, nil
  line.changed = true
  table.insert(line.gone, id)
  table.insert(line.gone, 'n' .. id)
end

local function remove(line, id, place)
  forget(line, id, place)
  if place[STATE] < RELEASED then
    local part, index = find(line, id, place)
    local order = order_of(line, part)
    shrink(line, part, string.sub(order, 1, index * 16) .. string.sub(order, index * 16 + 17))
  end
end

-- Has a place's record written at the end, and makes the key live long enough for it.
local function write(line, id, place)
  line.places[id], line.written[id] = place, true
  line.expires = math.max(line.expires, math.ceil((place[DEADLINE] + place[TTL]) / 1000))
end

-- Gives a place a lease from now on, unless it has a longer one.
local function prolong(line, id, place, ttl)
  place[TTL] = math.max(place[TTL], ttl)
  place[DEADLINE] = math.max(place[DEADLINE], now + ttl)
  write(line, id, place)
end

-- An id that must not come back, for one lease.
local function bury(line, id, ttl, state)
  if line.graves == 0 then
    line.sweep = now + math.max(ttl, SECOND)
  end
  line.graves = line.graves + 1
  line.changed = true
  write(line, id, { 0, 'x', 0, 0, ttl, now + ttl, now, state, '' })
end

-- Removes what has lapsed. A line that was written by another clock (in another life of the server, which is a restart
-- or a failover, or before the clock was set back) gives every place a whole lease instead: a holder may believe as
-- long, and no longer.
--
-- Of the parts, only those are read in which a lease may have ended. Whoever waits or holds renews its place long
-- before its deadline, so a part is read once for each that died in it, and at most twice in a lease for those that
-- live. Graves stand in no part, so all is read to find them; but not again before the last of those that are left
-- has lapsed, nor within a second.
local function purge(line, silent)
  local moved = line.incarnation ~= incarnation or now + SECOND < line.seen
  local sweeps = line.graves > 0 and now >= line.sweep
  if not moved and not sweeps and now < line.calm then
    return
  end
  line.changed = true

  if moved or sweeps then
    local all = redis.call('HGETALL', line.key)
    line.sweep = now + SECOND
    if moved then
      line.incarnation, line.calm, line.expires = incarnation, FAR, 0
    end
    for i = 1, #all, 2 do
      local id = all[i]
      local place = #id == 16 and cmsgpack.unpack(all[i + 1])
      if place and moved then
        place[DEADLINE] = now + place[TTL]
        write(line, id, place)
        line.calm = math.min(line.calm, place[DEADLINE])
      end
      if place and place[STATE] >= RELEASED then
        if now < place[DEADLINE] then
          line.sweep = math.max(line.sweep, place[DEADLINE])
        else
          forget(line, id, place)
        end
      end
    end
    if moved then
      line.calms = string.rep(struct.pack('>d', line.calm), #line.lengths)
    end
  end

  if now >= line.calm then
    line.calm = FAR
    -- From the back, since a part may join the one behind it.
    for part = #line.lengths, 1, -1 do
      local calm = struct.unpack('>d', line.calms, part * 8 - 7)
      if now >= calm then
        local order, ids, kept = order_of(line, part), {}, {}
        for at = 1, #order, 16 do
          table.insert(ids, string.sub(order, at, at + 15))
        end
        local packed = #ids > 0 and redis.call('HMGET', line.key, unpack(ids))
        calm = FAR
        for i, id in ipairs(ids) do
          local place = packed[i] and cmsgpack.unpack(packed[i]) or foreign()
          if now < place[DEADLINE] then
            line.places[id], calm = place, math.min(calm, place[DEADLINE])
            table.insert(kept, id)
          else
            forget(line, id, place)
          end
        end
        shrink(line, part, table.concat(kept), calm)
      end
      line.calm = math.min(line.calm, calm)
    end
  end
  settle(line, silent)
end

-- Reads a line of one. The clock is read again after what is left of the lease, or a server that stalls between the
-- two would cut the lease short by as much.
local function read_one(line, packed, place)
  local left = redis.call('PTTL', line.key) * 1000 - place[TTL]
  time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  if place[LIFE] ~= incarnation or left > place[TTL] + SECOND then
    left, place[LIFE], line.changed = place[TTL], incarnation, true
  end
  -- The key is kept for up to a millisecond more than twice the ttl, which is no lease of its own.
  place[DEADLINE] = now + math.min(left, place[TTL])
  line.ends = not line.changed and left <= place[TTL] and place[DEADLINE]
  local id = place[ID]
  line.one, line.calm, line.inside, line.last = packed, place[DEADLINE], place[SEQ], place[SEQ]
  line.holders, line.mode, line.of, line.taken = 1, place[MODE], place[OF], place[TAKE]
  line.places[id], line.notes[id] = place, place[NOTE]
  unpack_order(line, id, '')
  if left <= 0 then
    remove(line, id, place)
  else
    write(line, id, place)
    line.written[id] = line.changed or nil
  end
end

-- Reads a line, and one place of it in the same call. Of a line that is not there:
--   calm, expires  no lease ends before; the key does then
--   holders, mode, of, taken  how many hold, how, and how many permits
--   inside, last   all up to the first number hold, and numbers up to the last one were drawn
--   graves, sweep  how many, and when to look for those that have lapsed
local function read(key, id, silent)
  local found = redis.call('HMGET', key, 'line', id)
  local packed = found[1]
  local line = {
    key = key, there = packed and true, changed = false, places = {}, written = {}, notes = {}, gone = {}, told = {},
    incarnation = incarnation, calm = FAR, expires = 0, lasts = 0, seen = 0, inside = 0, last = 0, holders = 0,
    mode = '', of = 0, taken = 0, graves = 0, sweep = 0, starts = FIRST, calms = '', lengths = '', orders = {},
    rewritten = {},
  }
  local one = packed and unpack_one(packed)
  if one then
    read_one(line, packed, one)
  elseif packed then
    local fine, head = pcall(cmsgpack.unpack, packed)
    if not fine or type(head) ~= 'table' or #head ~= FIELDS then
      foreign()
    end
    line.incarnation, line.calm, line.expires, line.holders, line.mode, line.of, line.taken, line.graves = unpack(head)
    line.seen, line.inside, line.last, line.sweep = unpack(head, 10, 13)
    line.lasts = line.expires
    unpack_order(line, head[9], head[14])
    line.places[id] = found[2] and cmsgpack.unpack(found[2]) or nil
    purge(line, silent)
    local place = line.places[id]
    if place and place[STATE] >= RELEASED and now >= place[DEADLINE] then
      forget(line, id, place)
    end
  else
    unpack_order(line, '', '')
  end
  return line
end

local function pack_line(line)
  return cmsgpack.pack({
    line.incarnation, line.calm, line.expires, line.holders, line.mode, line.of, line.taken, line.graves,
    line.orders[FIRST], now, line.inside, line.last, line.sweep,
    #line.lengths > 1 and line.starts .. line.calms .. line.lengths or '',
  })
end

-- Writes what changed. A server that is out of memory refuses a script's first write if that may take more, and lets
-- through what follows another: so a line that is there is first shrunk or touched, and renewals and releases work.
local function store(line)
  local first = line.orders[FIRST]
  local empty = first == '' and line.graves == 0
  if line.there and empty then
    redis.call('DEL', line.key)
    return
  end
  if line.one then
    if not line.changed and not next(line.written) then
      return
    end
    local place = line.places[first]
    if place and line.graves == 0 and place[ID] and place[STATE] == STANDS then
      local deadline = place[DEADLINE]
      -- What was counted from the key's expiry was rounded up before; once more each time would keep it forever.
      local round = deadline == line.ends and 0 or 1
      redis.call('PEXPIRE', line.key, math.ceil((deadline - now + place[TTL]) / 1000) + round)
      local packed = struct.pack(ONE, place[SEQ], place[TAKEN], place[ID], place[LIFE], place[MODE], place[TTL],
        place[TAKE], place[OF], #place[CLIENT], place[CLIENT]) .. place[NOTE]
      if packed ~= line.one then
        redis.call('HSET', line.key, 'line', packed)
      end
      return
    end
    -- Others have come, or it must be remembered for more than its place.
    for id in pairs(line.places) do
      line.written[id] = true
    end
  elseif line.there then
    for i = 1, #line.gone, 1000 do
      redis.call('HDEL', line.key, unpack(line.gone, i, math.min(i + 999, #line.gone)))
    end
  end
  local fields = {}
  for id in pairs(line.written) do
    table.insert(fields, id)
    table.insert(fields, cmsgpack.pack(line.places[id]))
    if line.notes[id] then
      table.insert(fields, 'n' .. id)
      table.insert(fields, line.notes[id])
    end
  end
  for start in pairs(line.rewritten) do
    table.insert(fields, 'p' .. start)
    table.insert(fields, line.orders[start])
  end
  if empty or (#fields == 0 and not line.changed) then
    return
  end
  if line.there and (line.expires ~= line.lasts or #line.gone == 0) then
    redis.call('PEXPIREAT', line.key, line.expires)
  end
  table.insert(fields, 'line')
  table.insert(fields, pack_line(line))
  for i = 1, #fields, 1000 do
    redis.call('HSET', line.key, unpack(fields, i, math.min(i + 999, #fields)))
  end
  if not line.there then
    redis.call('PEXPIREAT', line.key, line.expires)
  end
end

local function save(line)
  store(line)
  for i = 1, #line.told, 2 do
    redis.call('PUBLISH', line.told[i], line.told[i + 1])
  end
end
