-- The order of a line. This text stands where a verb or line.lua says so.
--
-- The ids stand in parts, so that a verb reads and writes one or two of them however long the line is. The first part
-- stands in the field `line`, beside what holds for the line as a whole; each of the others in a field of its own.
-- Numbers rise along a line (attempt.lua sees to it), so the number of a place says in which part it stands. Of each
-- part the line knows:
--   line.starts   a number that is above all those before the part, and not above those in it (8 bytes): its name
--   line.calms    a time before which no lease in it ends (8 bytes)
--   line.lengths  how many stand in it (1 byte)
--   line.orders   by its start, the ids, if they were read
-- Only the first part of an empty line is empty, and two neighbours behind the first have more than PART / 2 ids in
-- all: so the longest line has a few hundred parts at most, and what is known of them is short.
local PART = 128
local FIRST = '\0\0\0\0\0\0\0\0' -- the start of the first part: zero, packed

-- Takes in what the field `line` says: the first part, and what is known of the parts if there are more.
local function unpack_order(line, first, parts)
  if type(first) ~= 'string' or type(parts) ~= 'string' or #first % 16 ~= 0 or #first > PART * 16
    or #parts % 17 ~= 0 then
    foreign()
  end
  local count = #parts / 17
  line.orders[FIRST], line.lengths = first, string.char(#first / 16)
  if count == 0 then
    line.starts, line.calms = FIRST, struct.pack('>d', line.calm)
  else
    line.starts, line.calms = string.sub(parts, 1, 8 * count), string.sub(parts, 8 * count + 1, 16 * count)
    line.lengths = line.lengths .. string.sub(parts, 16 * count + 2)
  end
end

local function order_of(line, part)
  local start = string.sub(line.starts, part * 8 - 7, part * 8)
  local order = line.orders[start]
  if not order then
    order = redis.call('HGET', line.key, 'p' .. start)
    if not order or #order ~= string.byte(line.lengths, part) * 16 then
      foreign()
    end
    line.orders[start] = order
  end
  return order
end

-- How many stand in the parts before this one.
local function count_before(line, part)
  local count = 0
  for _, length in ipairs({ string.byte(line.lengths, 1, part - 1) }) do
    count = count + length
  end
  return count
end

-- The part of a place, and how many stand before it there.
local function find(line, id, place)
  local part, last = 1, #line.lengths
  while part < last do
    local middle = math.ceil((part + last) / 2)
    if struct.unpack('>d', line.starts, middle * 8 - 7) <= place[SEQ] then
      part = middle
    else
      last = middle - 1
    end
  end
  local order, from = order_of(line, part), 1
  while true do
    local at = string.find(order, id, from, true)
    if not at then
      foreign()
    elseif at % 16 == 1 then
      return part, (at - 1) / 16
    end
    from = at + 1
  end
end

-- Has a part's order written at the end; and says that no lease in it ends before then, if it is known.
local function set_order(line, part, order, calm)
  local start = string.sub(line.starts, part * 8 - 7, part * 8)
  line.orders[start], line.rewritten[start], line.changed = order, part > 1 or nil, true
  line.lengths = string.sub(line.lengths, 1, part - 1) .. string.char(#order / 16) .. string.sub(line.lengths, part + 1)
  if calm then
    local before, after = string.sub(line.calms, 1, part * 8 - 8), string.sub(line.calms, part * 8 + 1)
    line.calms = before .. struct.pack('>d', calm) .. after
  end
end

-- The same for what others have left of it. It joins a neighbour if one of them is empty, or both are small.
local function shrink(line, part, order, calm)
  set_order(line, part, order, calm)
  for one = part, math.max(1, part - 1), -1 do
    local length, next_length = string.byte(line.lengths, one, one + 1)
    if next_length and (length == 0 or next_length == 0 or length + next_length <= PART / 2) then
      local start, next_order = string.sub(line.starts, one * 8 + 1, one * 8 + 8), order_of(line, one + 1)
      if next_order ~= '' then
        local mine, theirs = struct.unpack('>dd', line.calms, one * 8 - 7)
        set_order(line, one, order_of(line, one) .. next_order, math.min(mine, theirs))
      end
      line.starts = string.sub(line.starts, 1, one * 8) .. string.sub(line.starts, one * 8 + 9)
      line.calms = string.sub(line.calms, 1, one * 8) .. string.sub(line.calms, one * 8 + 9)
      line.lengths = string.sub(line.lengths, 1, one) .. string.sub(line.lengths, one + 2)
      line.orders[start], line.rewritten[start] = nil, nil
      table.insert(line.gone, 'p' .. start)
    end
  end
end
