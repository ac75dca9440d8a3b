-- Reads the clock, after the wait for the row, and removes what has lapsed. A line that was written by another clock
-- (in another life of the server, or before the clock was set back) gives every place a whole lease instead: a holder
-- may believe as long, and no longer.
--
-- :h  the key            :life  this life of the server
-- sets @now
SET @now = {clock}, @foreign = (SELECT life <> :life FROM {lines} WHERE h = :h);
UPDATE {places} SET deadline = @now + ttl WHERE h = :h AND (@foreign OR deadline > @now + ttl);
UPDATE {lines} SET life = :life WHERE h = :h AND @foreign;
DELETE FROM {places} WHERE h = :h AND deadline <= @now;
