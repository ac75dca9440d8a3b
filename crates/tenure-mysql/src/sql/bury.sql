-- Refuses a claim for one lease: an attempt of it may still be on its way.
--
-- :h  the key     :id  claim     :ttl
INSERT INTO {places} (h, id, seq, mode, take, total, ttl, deadline, taken, state, who, label, bell)
  VALUES (:h, :id, 0, 0, 0, 0, :ttl, @now + :ttl, @now, 2, '', '', {none});
