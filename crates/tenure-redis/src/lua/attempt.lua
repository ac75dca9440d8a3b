-- Tries once: takes a place or keeps the one it has, refreshes its lease, and says whether it holds.
--
-- KEYS[1]  the line
-- KEYS[2]  the mark: the largest number drawn for any line beside it, since when this is known, and in which life
-- ARGV[3]  claim id        ARGV[4]  mode: x, s or p   ARGV[5]  permits to take   ARGV[6]  permits in all
-- ARGV[7]  ttl             ARGV[8]  q to wait, t not  ARGV[9]  the least number  ARGV[10] the client
-- ARGV[11] note            ARGV[12] 1 if this server's memory survives a crash whole
--
-- { 1, number, for how long nothing was forgotten }                  it holds
-- { 0, number or -1, how many ahead, blocker's mode, take, of, when the first lease ends }  it does not
-- { -1 } evicted    { -2 } released before    { -3 } the line is full    { -4 } the least number is absurd
local id, patient, floor = ARGV[3], ARGV[8] == 'q', tonumber(ARGV[9])
local MOST, DAY = 10000, 86400000000


-- The last number drawn here, and since when nothing was forgotten.
local function mark()
  local last, since, life = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+) (%S+)$')
  if not last then
    return 0, now
  elseif life ~= incarnation and ARGV[12] ~= '1' then
    return tonumber(last), now
  end
  return tonumber(last), tonumber(since)
end

local function draw()
  local last, since = mark()
  local number = math.max(last + 1, floor, now)
  redis.call('SET', KEYS[2], string.format('%.0f %.0f ', number, since) .. incarnation)
  return number, since
end

if floor > now + DAY then
  return { -4 }
end
local place = {
  0, ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), now + ARGV[7], now, STANDS, ARGV[10],
}
local found = redis.call('HMGET', KEYS[1], 'line', id)
local since

-- Nobody is in line.
if not found[1] then
  place[SEQ], since = draw()
  local expires = math.ceil((place[DEADLINE] + place[TTL]) / 1000)
  local line = { incarnation, place[DEADLINE], expires, 1, place[MODE], place[OF], place[TAKE], 0, id, now }
  redis.call('HSET', KEYS[1], 'line', cmsgpack.pack(line), id, cmsgpack.pack(place), 'n' .. id, ARGV[11])
  redis.call('PEXPIREAT', KEYS[1], expires)
  return { 1, place[SEQ], math.max(0, now - since) }
end

-- [line.lua]

local line = read(KEYS[1], id, found, id)
local mine = line.places[id]

local function busy(number, ahead, wish)
  local mode, take, of = '', 0, 0
  for index = ahead - 1, math.max(0, ahead - 8), -1 do
    local other = place_of(line, string.sub(line.order, index * 16 + 1, index * 16 + 16))
    if not compatible(wish[MODE], wish[OF], wish[TAKE], other) then
      mode, take, of = other[MODE], other[TAKE], other[OF]
      break
    end
  end
  return { 0, number, ahead, mode, take, of, math.max(0, line.calm - now) }
end

if mine then
  if mine[STATE] ~= STANDS then
    save(line)
    return { mine[STATE] == RELEASED and -2 or -1 }
  end
  place = mine
  prolong(line, id, place, tonumber(ARGV[7]))
else
  local ahead = #line.order / 16
  if not patient and not (line.holders == ahead and fits(line, place)) then
    save(line)
    return busy(-1, ahead, place)
  elseif ahead >= MOST then
    save(line)
    return { -3 }
  end
  place[SEQ], since = draw()
  line.order = line.order .. id
  line.changed = true
  line.notes[id] = ARGV[11]
  write(line, id, place)
  settle(line, id)
end
save(line)
local ahead = index_of(line, id)
if ahead < line.holders then
  if not since then
    since = select(2, mark())
  end
  return { 1, place[SEQ], math.max(0, now - since) }
end
return busy(place[SEQ], ahead, place)
