-- Turns an exclusive hold into a shared one at the same place. Follows purge.sql.
--
-- :h  the key     :id :seq  the place     :ttl
--
-- One row: the mode that the place had, NULL if there is no such place.
SELECT MAX(mode) FROM {places} WHERE h = :h AND id = :id AND seq = :seq AND state = 0 FOR UPDATE;
UPDATE {places} SET mode = 1, ttl = GREATEST(ttl, :ttl), deadline = GREATEST(deadline, @now + :ttl)
  WHERE h = :h AND id = :id AND seq = :seq AND state = 0 AND mode < 2;
