-- Gives back a key that a claim has alone. Leaves everything else alone. Nobody ever listened for its doorbell, which the
-- session may keep for another claim.
--
-- :h  the key     :life  this life of the server     :id  claim
--
-- Changes one row if it was so.
UPDATE {lines} SET id = {none}, turns = turns + 1
  WHERE h = :h AND id = :id AND life = :life AND deadline > {clock};
