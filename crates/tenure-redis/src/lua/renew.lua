-- Prolongs the leases of many holds. Names the id and the number of each, and creates nothing.
--
-- KEYS     the lines, one for each hold; then, if there is a floor, the mark
-- ARGV[1]  life   ARGV[2]  what the mark is raised to, or 0
-- ARGV[3] to [6], then the next hold's: claim id, number, ttl, how long a line of one is kept
--
-- For each hold 1 if it lives on, 0 if there is no such place.    { -4 } the floor is absurd

-- [head.lua]

local floor = tonumber(ARGV[2])
local holds = floor > 0 and #KEYS - 1 or #KEYS
local DAY = 86400000000

if floor > now + DAY then
  return { -4 }
end

-- Lines of one, as most are, live on by their key's expiry alone.
local renewed, rest = {}, {}
for i = 1, holds do
  local id, number, ttl = ARGV[4 * i - 1], tonumber(ARGV[4 * i]), tonumber(ARGV[4 * i + 1])
  local one = redis.pcall('HGET', KEYS[i], 'line')
  -- (Where its parts stand is said in one.lua.)
  if type(one) == 'string' and string.sub(one, 17, 40) == id .. incarnation and struct.unpack('>d', one) == number
    and struct.unpack('>d', one, 42) == ttl then
    local left = redis.call('PTTL', KEYS[i]) * 1000 - ttl
    if left > 0 and left <= ttl + SECOND then
      redis.call('PEXPIRE', KEYS[i], ARGV[4 * i + 2])
      renewed[i] = 1
    end
  end
  if not renewed[i] then
    renewed[i] = 0
    table.insert(rest, i)
  end
end
if #rest == 0 and floor == 0 then
  return renewed
end

-- [line.lua]

-- A key that is no line any more has no place, and must not keep the others from being renewed.
local function read_or_lose(key, id)
  local fine, line = pcall(read, key, id)
  if fine then
    return line
  end
  local why = type(line) == 'table' and line.err or tostring(line)
  if not string.find(why, 'WRONGTYPE', 1, true) and not string.find(why, '-FOREIGN', 1, true) then
    error(line, 0)
  end
end

for _, i in ipairs(rest) do
  local id, number, ttl = ARGV[4 * i - 1], tonumber(ARGV[4 * i]), tonumber(ARGV[4 * i + 1])
  local line = read_or_lose(KEYS[i], id)
  local place = line and line.places[id]
  if place and place[STATE] == STANDS and place[SEQ] == number then
    prolong(line, id, place, ttl)
    renewed[i] = 1
  end
  if line then
    save(line)
  end
end

-- Last, because a server that is out of memory lets this through only after another write.
if floor > 0 then
  local mark = redis.call('GET', KEYS[#KEYS])
  local last, since, at = 0, now, nil
  if mark and #mark > 16 then
    last, since, at = struct.unpack('>dd', mark)
    if not (last < FAR and last % 1 == 0) then
      last, since, at = 0, now, nil -- somebody damaged it
    end
  end
  if last < floor then
    redis.call('SET', KEYS[#KEYS], struct.pack('>dd', floor, since) .. (at and string.sub(mark, at) or incarnation))
  end
end
return renewed
