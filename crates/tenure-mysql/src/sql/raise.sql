-- Lifts a key's last number to a floor. Follows renew.sql.
--
-- :h  the key     :floor
UPDATE {lines} SET last = GREATEST(last, :floor) WHERE h = :h AND NOT @absurd;
