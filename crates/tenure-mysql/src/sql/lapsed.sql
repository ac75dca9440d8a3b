-- Some keys that everybody left without letting go: their holders died, and nobody has asked for them since.
--
-- :limit  the most rows
--
-- For each its hash.
SELECT h FROM {places} GROUP BY h HAVING MAX(deadline) <= {clock} LIMIT :limit;
