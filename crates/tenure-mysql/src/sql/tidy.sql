-- Notes that nobody holds or waits for a key any more.
--
-- :h  the key
UPDATE {lines} SET many = 0 WHERE h = :h AND NOT EXISTS (SELECT 1 FROM {places} WHERE {places}.h = :h);
