-- Tries once: takes a place or keeps the one it has, refreshes its lease, and says whether it holds.
--
-- KEYS[1]  the line
-- KEYS[2]  the mark: the largest number drawn for any line beside it, since when this is known, and in which life
-- ARGV[1]  claim id, life   ARGV[2]  the rest of its place as in one.lua, from the mode on
-- ARGV[3]  how long a line of one is kept: twice the ttl, in milliseconds
-- and if they are not 0:  ARGV[4] the least number   ARGV[5] 1 if this server's memory survives a crash whole
--                         ARGV[6] 1 not to wait
--
-- number and for how long nothing was forgotten, packed: it holds
-- { 0, number or -1, how many ahead, blocker's mode, take, of, when the first lease ends }  it does not
-- { -1 } evicted    { -2 } released before    { -3 } the line is full    { -4 } the least number is absurd

-- [head.lua]

local floor = tonumber(ARGV[4] or 0)
local MOST, DAY = 10000, 86400000000
if floor > now + DAY then
  return { -4 }
end

-- The last number drawn here, and since when nothing was forgotten.
local mark = redis.call('GET', KEYS[2])
local last, since = 0, now
if mark and #mark > 16 then
  local from, at
  last, from, at = struct.unpack('>dd', mark)
  if not (last < FAR and last % 1 == 0) then
    last = 0 -- somebody damaged it
  elseif ARGV[5] == '1' or string.sub(mark, at) == incarnation then
    since = from
  end
end
local number = math.max(last + 1, floor, now)
local drawn = struct.pack('>dd', number, since) .. incarnation
local packed = struct.pack('>dd', number, now) .. ARGV[1] .. ARGV[2]

-- Nobody is in line. (A server that is out of memory refuses even to look; what follows tells which it is.)
local free = redis.pcall('HSETNX', KEYS[1], 'line', packed)
if free == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('SET', KEYS[2], drawn)
  return struct.pack('>dd', number, math.max(0, now - since))
elseif free ~= 0 and not string.find(free.err, 'OOM', 1, true) then
  return redis.call('HSETNX', KEYS[1], 'line', '') -- the same refusal, with the place where it came from
end

-- [line.lua]

local id, place = string.sub(ARGV[1], 1, 16), unpack_one(packed)
local ttl = place[TTL]
local line = read(KEYS[1], id, id)
local mine = line.places[id]

-- What a claim is told that waits behind so many of this part, or would.
local function busy(number, part, index, wish)
  local ahead, mode, take, of = count_before(line, part) + index, '', 0, 0
  for _ = 1, math.min(8, ahead) do
    if index == 0 then
      part, index = part - 1, string.byte(line.lengths, part - 1)
    end
    local other = place_of(line, string.sub(order_of(line, part), index * 16 - 15, index * 16))
    if not compatible(wish[MODE], wish[OF], wish[TAKE], other) then
      mode, take, of = other[MODE], other[TAKE], other[OF]
      break
    end
    index = index - 1
  end
  return { 0, number, ahead, mode, take, of, math.max(0, line.calm - now) }
end

if mine then
  if mine[STATE] ~= STANDS then
    save(line)
    return { mine[STATE] == RELEASED and -2 or -1 }
  end
  place = mine
  prolong(line, id, place, ttl)
else
  local part = #line.lengths
  local length = string.byte(line.lengths, part)
  local all = count_before(line, part) + length
  if ARGV[6] == '1' and not (line.holders == all and fits(line, place)) then
    local said = busy(-1, part, length, place)
    save(line)
    return said
  elseif all >= MOST then
    save(line)
    return { -3 }
  end
  if number <= line.last then
    -- The mark was lost, and must not lead back behind those in line.
    number = line.last + 1
    drawn = struct.pack('>dd', number, since) .. incarnation
  end
  local note = place[NOTE]
  place = { number, place[MODE], place[TAKE], place[OF], ttl, now + ttl, now, STANDS, place[CLIENT] }
  line.last, line.notes[id] = number, note
  write(line, id, place)
  if length == PART then
    local start = struct.pack('>d', number)
    line.starts, line.calms = line.starts .. start, line.calms .. struct.pack('>d', FAR)
    line.lengths, line.orders[start], part = line.lengths .. '\0', '', part + 1
  end
  local calm = struct.unpack('>d', line.calms, part * 8 - 7)
  set_order(line, part, order_of(line, part) .. id, math.min(calm, now + ttl))
  line.calm = math.min(line.calm, now + ttl)
  if line.holders == all then
    settle(line, id)
  end
end

-- Nothing is written before the answer is known: a line that turns out to be damaged is refused and left as it is.
local said
if place[SEQ] <= line.inside then
  said = struct.pack('>dd', place[SEQ], math.max(0, now - since))
else
  local part, index = find(line, id, place)
  said = busy(place[SEQ], part, index, place)
end
if not mine then
  redis.call('SET', KEYS[2], drawn)
end
save(line)
return said
