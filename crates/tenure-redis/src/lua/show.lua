-- The places of a line in order, for people. Changes nothing.
--
-- KEYS[1]  the line
--
-- For each place that lives: claim id, number, mode, take, of, lease left, age, note.

-- [head.lua]

-- [one.lua]

local shown = {}

local function show(id, place, deadline, note)
  if now < deadline then
    for _, value in ipairs({
      id, place[SEQ], place[MODE], place[TAKE], place[OF], deadline - now, math.max(0, now - place[TAKEN]), note,
    }) do
      table.insert(shown, value)
    end
  end
end

local all = redis.call('HGETALL', KEYS[1])
local fields = {}
for i = 1, #all, 2 do
  fields[all[i]] = all[i + 1]
end
if fields.line then
  -- If another clock wrote a line, the first verb will give it a whole lease.
  local one = unpack_one(fields.line)
  if one then
    local left = one[LIFE] == incarnation and redis.call('PTTL', KEYS[1]) * 1000 - one[TTL] or one[TTL]
    show(one[ID], one, now + math.min(left, one[TTL]), one[NOTE])
    return shown
  end
  local fine, line = pcall(cmsgpack.unpack, fields.line)
  if not fine or type(line) ~= 'table' or #line ~= FIELDS then
    foreign()
  end
  local moved, parts = line[1] ~= incarnation or now + SECOND < line[10], line[14]
  local orders, count = { line[9] }, #parts / 17
  for part = 2, count do
    local order = fields['p' .. string.sub(parts, part * 8 - 7, part * 8)]
    if not order or #order ~= string.byte(parts, 16 * count + part) * 16 then
      foreign()
    end
    table.insert(orders, order)
  end
  local order = table.concat(orders)
  for at = 1, #order, 16 do
    local id = string.sub(order, at, at + 15)
    local place = fields[id] and cmsgpack.unpack(fields[id]) or foreign()
    show(id, place, moved and now + place[TTL] or place[DEADLINE], fields['n' .. id] or '')
  end
end
return shown
