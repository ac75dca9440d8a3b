-- A line of one in its single field. This text stands where a verb says so.
--
-- number (8 bytes) and when it was taken (8), then what the client sent: claim id (16), life (8), mode (1), ttl (8),
-- permits to take (4) and in all (4), the length of the channel (1), the channel, and the note to the end. Its parts
-- stand where they do so that the common verbs need not take it apart: an attempt puts two numbers before what it was
-- given, a release compares id and life in one.
local ONE = '>ddc16c8c1dI4I4Bc0'

-- The place, or nothing if this is none.
local function unpack_one(packed)
  local fine, number, taken, id, life, mode, ttl, take, of, client, at = pcall(struct.unpack, ONE, packed)
  if fine and number >= 1 and number < FAR and number % 1 == 0 then
    return { number, mode, take, of, ttl, 0, taken, STANDS, client, id, life, string.sub(packed, at) }
  end
end

local function foreign()
  error('-FOREIGN the key is no line of tenure')
end
