-- Takes a key that was given back, in its own row. Whatever is not so simple is left to the function, whose parameters
-- these are too.
--
-- The key is locked by the last of the conditions, and the number drawn after. A row that was changed since the statement
-- began is looked at again as it is now, and one that was not to be taken then is for the function. (As a condition, and
-- not as a query of its own, because that would be a plan more to begin and end.)
UPDATE @places SET seq = nextval('@numbers'), id = $2, mode = $3, take = $4, total = $5, state = 0, holds = true,
    ttl = $6, deadline = @clock + $6, taken = @clock, life = @life, client = $8, note = $9, turn = 0
  WHERE key = $1 AND slot = 0 AND state = 4 AND NOT many AND pg_advisory_xact_lock(@lock) IS NOT NULL
  RETURNING seq, life
