-- Gives back a key that a claim has alone, and its doorbell with it: nobody listens for that. Leaves everything else
-- alone.
--
-- :h  the key     :life  this life of the server     :id  claim     :ring  what lets the doorbell go
--
-- Changes one row if it was so.
UPDATE {lines} SET id = {none}, turns = turns + 1 + :ring
  WHERE h = :h AND id = :id AND life = :life AND deadline > {clock};
