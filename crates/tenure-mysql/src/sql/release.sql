-- Makes a claim neither hold nor wait, and touches no other. Follows purge.sql.
--
-- :h  the key     :id  claim
--
-- One row: 1 if it had a place, 0 if not.
SELECT COUNT(*) FROM {places} WHERE h = :h AND id = :id AND state < 2 FOR UPDATE;
DELETE FROM {places} WHERE h = :h AND id = :id;
