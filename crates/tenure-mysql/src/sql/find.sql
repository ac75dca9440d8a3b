-- Locks the key's row, if there is one.
--
-- :h  the key
START TRANSACTION;
UPDATE {lines} SET turns = turns + 1 WHERE h = :h;
