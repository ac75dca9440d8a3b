-- What every verb knows. This text stands in front of each verb's own.
--
-- ARGV[1]  the life of this server, as its client found it: its run id, shortened
-- ARGV[2]  what the channel of a client's name starts with
--
-- A line is one hash, so that expiry and eviction take all of it or nothing:
--   line    what holds for the line as a whole, in the order of pack_line
--   <id>    a place (16 bytes), in the order of SEQ and so on; or a grave, which only refuses an id
--   n<id>   who stands there, for people
-- Times are microseconds of this server's clock, as all numbers below 2^53. A place is alive while now < deadline.
-- The key outlives its last place by one lease: a replica whose clock is fast must not drop what it has not looked at.
-- A place's ttl is the longest lease it was ever given: nobody believes in it for longer than that from now on.

local SEQ, MODE, TAKE, OF, TTL, DEADLINE, TAKEN, STATE, CLIENT = 1, 2, 3, 4, 5, 6, 7, 8, 9
local STANDS, STOPPED, RELEASED, EVICTED = 0, 1, 2, 3 -- stopped: evicted, and free at its deadline
local FAR, SECOND = 9007199254740991, 1000000

local incarnation, channels = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whether a line was written by another clock: in another life of the server (a restart, a failover), or before the
-- clock was set back.
local function is_foreign_time(life, seen)
  return life ~= incarnation or now + SECOND < seen
end
