-- What verbs do with a line. This text stands where a verb says so: building these functions takes the server longer
-- than the common case of a lock that nobody else wants, so that case comes first.

-- [one.lua]

local function pack_one(place)
  return struct.pack(ONE, place[SEQ], place[TAKEN], place[ID], place[LIFE], place[MODE], place[TTL], place[TAKE],
    place[OF], #place[CLIENT], place[CLIENT]) .. place[NOTE]
end

-- Has a client told at the end: if the server refuses to write, it must not have said that somebody holds.
local function tell(line, kind, id, place)
  table.insert(line.told, place[CLIENT])
  table.insert(line.told, kind .. id .. struct.pack('>d', place[SEQ]) .. incarnation)
end

local function place_of(line, id)
  local place = line.places[id]
  if not place then
    local packed = redis.call('HGET', line.key, id)
    place = packed and cmsgpack.unpack(packed)
    line.places[id] = place
  end
  return place
end

-- How many places stand before this one.
local function index_of(line, id)
  local from = 1
  while true do
    local at = string.find(line.order, id, from, true)
    if not at or at % 16 == 1 then
      return at and (at - 1) / 16
    end
    from = at + 1
  end
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
  while line.holders * 16 < #line.order do
    local at = line.holders * 16
    local id = string.sub(line.order, at + 1, at + 16)
    local place = place_of(line, id)
    if not fits(line, place) then
      return
    end
    line.holders = line.holders + 1
    line.mode, line.of, line.taken = place[MODE], place[OF], line.taken + place[TAKE]
    line.changed = true
    if id ~= silent then
      tell(line, 'H', id, place)
    end
  end
end

local function remove(line, id, place)
  if place[STATE] == RELEASED or place[STATE] == EVICTED then
    line.graves = line.graves - 1
  else
    local index = index_of(line, id)
    line.order = string.sub(line.order, 1, index * 16) .. string.sub(line.order, index * 16 + 17)
    if index < line.holders then
      line.holders = line.holders - 1
      line.taken = line.holders > 0 and line.taken - place[TAKE] or 0
    end
  end
  line.places[id], line.written[id], line.notes[id] = nil, nil, nil
  line.changed = true
  table.insert(line.gone, id)
  table.insert(line.gone, 'n' .. id)
end

-- Takes many out of the line at once: one by one, each would copy the whole line.
local function remove_all(line, lapsed)
  local kept, holders = {}, line.holders
  for index = 0, #line.order / 16 - 1 do
    local id = string.sub(line.order, index * 16 + 1, index * 16 + 16)
    local place = lapsed[id]
    if not place then
      table.insert(kept, id)
    else
      if index < holders then
        line.holders, line.taken = line.holders - 1, line.taken - place[TAKE]
      end
      line.places[id], line.written[id] = nil, nil
      table.insert(line.gone, id)
      table.insert(line.gone, 'n' .. id)
    end
  end
  line.taken = line.holders > 0 and line.taken or 0
  line.order, line.changed = table.concat(kept), true
end

-- Has a place's record written at the end, and makes the key live long enough for it.
local function write(line, id, place)
  line.places[id], line.written[id] = place, true
  line.calm = math.min(line.calm, place[DEADLINE])
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
  line.graves = line.graves + 1
  line.changed = true
  write(line, id, { 0, 'x', 0, 0, ttl, now + ttl, now, state, '' })
end

-- Whether a line was written by another clock: in another life of the server (a restart, a failover), or before the
-- clock was set back.
local function is_foreign_time(life, seen)
  return life ~= incarnation or now + SECOND < seen
end

-- Removes what has lapsed. A line that was written by another clock gives every place a whole lease instead: a holder
-- may believe as long, and no longer.
local function purge(line, silent)
  local moved = is_foreign_time(line.incarnation, line.seen)
  if not moved and now < line.calm then
    return
  end
  local all = redis.call('HGETALL', line.key)
  line.incarnation, line.calm, line.changed = incarnation, FAR, true
  if moved then
    line.expires = 0
  end
  local lapsed = {}
  for i = 1, #all, 2 do
    local id = all[i]
    if #id == 16 then
      local place = cmsgpack.unpack(all[i + 1])
      line.places[id] = place
      if moved then
        place[DEADLINE] = now + place[TTL]
        write(line, id, place)
      elseif place[DEADLINE] > now then
        line.calm = math.min(line.calm, place[DEADLINE])
      elseif place[STATE] == RELEASED or place[STATE] == EVICTED then
        remove(line, id, place)
      else
        lapsed[id] = place
      end
    end
  end
  if next(lapsed) then
    remove_all(line, lapsed)
  end
  settle(line, silent)
end

local function foreign()
  error('-FOREIGN the key is no line of tenure')
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
  line.one, line.incarnation, line.graves, line.expires = packed, incarnation, 0, 0
  line.calm, line.holders, line.mode, line.of, line.taken = FAR, 1, place[MODE], place[OF], place[TAKE]
  line.order, line.places[id], line.notes[id] = id, place, place[NOTE]
  if left <= 0 then
    remove(line, id, place)
  else
    write(line, id, place)
    line.written[id] = line.changed or nil
  end
end

-- Reads a line, and one place of it in the same call.
local function read(key, id, silent)
  local found = redis.call('HMGET', key, 'line', id)
  local line = { key = key, places = {}, written = {}, notes = {}, gone = {}, told = {}, changed = false }
  line.there = found[1] and true
  if line.there then
    local one = unpack_one(found[1])
    if one then
      read_one(line, found[1], one)
      return line
    end
    local fine, head = pcall(cmsgpack.unpack, found[1])
    if not fine or type(head) ~= 'table' or #head ~= 10 then
      foreign()
    end
    line.incarnation, line.calm, line.expires, line.holders, line.mode, line.of, line.taken, line.graves, line.order,
      line.seen = unpack(head)
    line.lasts = line.expires
    line.places[id] = found[2] and cmsgpack.unpack(found[2]) or nil
    purge(line, silent)
  else
    line.incarnation, line.calm, line.expires, line.holders = incarnation, FAR, 0, 0
    line.mode, line.of, line.taken, line.graves, line.order = '', 0, 0, 0, ''
  end
  return line
end

local function pack_line(line)
  return cmsgpack.pack({
    line.incarnation, line.calm, line.expires, line.holders, line.mode, line.of, line.taken, line.graves, line.order,
    now,
  })
end

-- Writes what changed. A server that is out of memory refuses a script's first write if that may take more, and lets
-- through what follows another: so a line that is there is first shrunk or touched, and renewals and releases work.
local function store(line)
  local empty = line.order == '' and line.graves == 0
  if line.there and empty then
    redis.call('DEL', line.key)
    return
  end
  if line.one then
    if not line.changed and not next(line.written) then
      return
    end
    local place = line.places[string.sub(line.order, 1, 16)]
    if #line.order == 16 and line.graves == 0 and place[ID] and place[STATE] == STANDS then
      local deadline = place[DEADLINE]
      -- What was counted from the key's expiry was rounded up before; once more each time would keep it forever.
      local round = deadline == line.ends and 0 or 1
      redis.call('PEXPIRE', line.key, math.ceil((deadline - now + place[TTL]) / 1000) + round)
      local packed = pack_one(place)
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
