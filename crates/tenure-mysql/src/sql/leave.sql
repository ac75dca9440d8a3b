-- Gives back a key that a claim has alone, and its doorbell with it: nobody listens for that. Leaves everything else
-- alone.
--
-- :h  the key     :life  this life of the server     :id  claim     :bell  its doorbell
--
-- Changes one row if it was so.
UPDATE {lines} SET id = {none}, turns = turns + 1 + {let_go}
  WHERE h = :h AND id = :id AND life = :life AND deadline > {clock};
