-- Turns an exclusive hold into a shared one at the same place, and lets in those who now hold beside it.
--
-- 1 if the hold lives on, 0 if there is no such place, -1 if its mode has no weaker one.
CREATE OR REPLACE FUNCTION @v_downgrade(p_key bytea, p_id uuid, p_seq bigint, p_ttl bigint) RETURNS bigint
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  v_mode smallint;
BEGIN
-- [level.sql]
-- [lock.sql]
-- [clock.sql]
  PERFORM @v_purge(p_key, NULL, v_now, v_life);
  SELECT mode INTO v_mode FROM @places WHERE key = p_key AND slot IN (0, p_seq) AND seq = p_seq AND id = p_id AND state = 0;
  IF NOT FOUND THEN
    RETURN 0;
  ELSIF v_mode = 2 THEN
    RETURN -1;
  END IF;
  UPDATE @places SET mode = 1, ttl = greatest(ttl, p_ttl), deadline = greatest(deadline, v_now + p_ttl)
    WHERE key = p_key AND slot IN (0, p_seq) AND seq = p_seq;
  PERFORM @v_settle(p_key, p_id, v_life);
  RETURN 1;
END
$tenure$;
