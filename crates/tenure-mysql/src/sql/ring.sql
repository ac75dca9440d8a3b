-- Takes the doorbell of a claim that has a place, before its place can be seen: who waits behind it blocks on that.
-- Once only, because a doorbell taken twice would have to be let go twice. Follows attempt.sql.
--
-- :ring  its name
DO IF((@new OR @state = 0) AND IS_FREE_LOCK(:ring), GET_LOCK(:ring, 0), 0);
