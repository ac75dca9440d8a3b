-- What is true of every line that was stored. Tests alone run it, after each verb that goes by line.lua.
local function check(key)
  local all = redis.call('HGETALL', key)
  local fields, records = {}, 0
  for i = 1, #all, 2 do
    fields[all[i]] = all[i + 1]
    records = records + (#all[i] == 16 and 1 or 0)
  end
  local function must(fine, what)
    if not fine then
      error('-CHECK ' .. what)
    end
  end
  if not fields.line then
    return must(#all == 0, 'fields without a line')
  elseif unpack_one(fields.line) then
    return must(#all == 2, 'a line of one has other fields')
  end

  local head = cmsgpack.unpack(fields.line)
  local _, calm, _, holders, mode, of, taken, graves = unpack(head)
  local _, inside, last, sweep, parts = unpack(head, 10, 14)
  local count = math.max(1, #parts / 17)
  must(parts == '' or count >= 2, 'one part is written as many')
  local places, before, sum, most = 0, 0, 0, 0
  for part = 1, count do
    local many = parts ~= ''
    local start, ends = many and struct.unpack('>d', parts, part * 8 - 7) or 0, calm
    local name = string.sub(parts, part * 8 - 7, part * 8)
    local order = part == 1 and head[9] or fields['p' .. name]
    must(order, 'a part is missing')
    local length = #order / 16
    if many then
      ends = struct.unpack('>d', parts, 8 * count + part * 8 - 7)
      must(part == 1 or length == string.byte(parts, 16 * count + part), 'a length is wrong')
      must(length > 0, 'a part is empty')
      must(part <= 2 or before + length > PART / 2, 'two parts are small')
    end
    must((start == 0) == (part == 1), 'a start is wrong')
    must(length <= PART and length % 1 == 0, 'a part has no such length')
    must(length == 0 or calm <= ends, 'the line is less calm than a part')
    before = length
    for at = 1, #order, 16 do
      local id = string.sub(order, at, at + 15)
      local place = fields[id] and cmsgpack.unpack(fields[id])
      must(place and place[STATE] < RELEASED, 'no place of an id in the order')
      must(fields['n' .. id], 'no note')
      must(place[SEQ] > most and place[SEQ] >= start, 'numbers do not rise')
      must(place[DEADLINE] >= ends, 'a lease ends before it is said to')
      most, places = place[SEQ], places + 1
      must((places <= holders) == (most <= inside), 'it is unclear who holds')
      if places <= holders then
        must(mode == place[MODE] and of == place[OF], 'a holder has another mode')
        sum = sum + place[TAKE]
      elseif places == holders + 1 then
        must(holders > 0 and not compatible(mode, of, taken, place), 'the next in line should hold')
      end
    end
  end
  must(holders <= places and sum == taken, 'the holders are miscounted')
  must(most <= last, 'the last number is not the last')
  must(records == places + graves, 'the graves are miscounted')
  must(graves == 0 or sweep > 0, 'nobody looks for graves')
  must(#all / 2 == 2 * places + graves + count, 'fields without a use')
end

