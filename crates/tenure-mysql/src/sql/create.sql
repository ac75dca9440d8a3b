-- Locks the key's row, which is made if there is none.
--
-- :h :name  the key      :life  this life of the server
START TRANSACTION;
INSERT INTO {lines} (h, name, life, turns) VALUES (:h, :name, :life, 1) ON DUPLICATE KEY UPDATE turns = turns + 1;
