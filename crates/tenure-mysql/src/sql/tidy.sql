-- Forgets a key that nobody holds or waits for any more.
--
-- :h  the key
DELETE FROM {lines} WHERE h = :h AND NOT EXISTS (SELECT 1 FROM {places} WHERE {places}.h = :h);
