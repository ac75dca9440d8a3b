-- Looks at some keys in order. Removes what has lapsed on those that nobody has asked for since, and the rows of keys
-- that nobody has wanted for a minute. Waits for nobody, and locks few keys, because a server has room for so many
-- locks only; but more than are released between two such steps.
--
-- The last key it looked at, in hexadecimal digits; nothing if there were no more.
CREATE OR REPLACE FUNCTION @v_sweep(p_after bytea, p_count smallint) RETURNS text
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  looked bytea[];
  p_key bytea;
  locked integer := 0;
BEGIN
-- [level.sql]
-- [clock.sql]
  looked := ARRAY(SELECT DISTINCT key FROM @places WHERE key > p_after ORDER BY key LIMIT p_count);
  FOR p_key IN
    SELECT DISTINCT key FROM @places WHERE key = ANY (looked) AND CASE WHEN state < 4
      THEN deadline <= v_now OR life <> v_life ELSE abs(v_now - taken) > 60000000 END ORDER BY key
  LOOP
    IF pg_try_advisory_xact_lock(hashtextextended(encode(p_key, 'hex'), '@places'::regclass::oid::bigint)) THEN
      locked := locked + 1;
      PERFORM @v_purge(p_key, NULL, v_now, v_life);
      DELETE FROM @places WHERE key = p_key AND slot = 0 AND state = 4 AND abs(v_now - taken) > 60000000
        AND NOT EXISTS (SELECT FROM @places WHERE key = p_key AND slot > 0);
      IF locked = 128 THEN
        RETURN encode(p_key, 'hex');
      END IF;
    END IF;
  END LOOP;
  RETURN CASE WHEN cardinality(looked) = p_count THEN encode(looked[p_count], 'hex') END;
END
$tenure$;
