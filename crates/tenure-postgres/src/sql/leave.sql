-- Gives back a key that a claim has alone, and keeps its row for the next. Whatever is not so simple is left to the
-- function, whose parameters these are too. (A deadline of another life of the server that has not passed has not passed.)
--
-- The key is locked before the clock is read: that is what `CASE` is for. How many rows it changed is the answer, because to
-- return something takes longer.
UPDATE @places SET state = 4, holds = false
  WHERE key = $1 AND slot = 0 AND id = $2 AND state = 0 AND NOT many AND NOT $4
    AND CASE WHEN pg_advisory_xact_lock(@lock) IS NULL THEN false ELSE deadline > @clock END
