-- Some keys that nobody has wanted for a while, or that were left by one who died alone.
--
-- :from :to  the first and the last hash     :life  this life of the server     :age  for how long, in microseconds
-- :limit  the most rows
--
-- For each its hash.
SELECT h FROM {lines} WHERE h BETWEEN :from AND :to AND last < {clock} - :age AND many = 0
  AND (id = {none} OR (life = :life AND deadline < {clock} - :age)) LIMIT :limit;
