-- Moves the place of a claim that was alone to the table of places. Follows create.sql or find.sql.
--
-- :h  the key
INSERT INTO {places} (h, id, seq, mode, take, total, ttl, deadline, taken, state, who, label, bell)
  SELECT h, id, seq, mode, take, total, ttl, deadline, taken, 0, who, label, bell FROM {lines}
    WHERE h = :h AND id <> {none};
UPDATE {lines} SET id = {none}, many = 1 WHERE h = :h;
