-- Prolongs the leases of many holds. Names the id and the number of each, and creates nothing.
--
-- KEYS     the lines, one for each hold; then, if there is a floor, the mark
-- ARGV[3]  what the mark is raised to, or 0
-- ARGV[4], [5], [6], then the next hold's: claim id, number, ttl
--
-- For each hold 1 if it lives on, 0 if there is no such place.    { -4 } the floor is absurd

-- [line.lua]

local floor = tonumber(ARGV[3])
local holds = floor > 0 and #KEYS - 1 or #KEYS
local DAY = 86400000000

if floor > now + DAY then
  return { -4 }
end

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

local renewed = {}
for i = 1, holds do
  local id, number, ttl = ARGV[1 + 3 * i], tonumber(ARGV[2 + 3 * i]), tonumber(ARGV[3 + 3 * i])
  local line = read_or_lose(KEYS[i], id)
  local place = line and line.places[id]
  renewed[i] = 0
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
  local last, since, life = string.match(redis.call('GET', KEYS[#KEYS]) or '', '^(%d+) (%d+) (%S+)$')
  if tonumber(last or 0) < floor then
    local kept = (since or string.format('%.0f', now)) .. ' ' .. (life or incarnation)
    redis.call('SET', KEYS[#KEYS], string.format('%.0f ', floor) .. kept)
  end
end
return renewed
