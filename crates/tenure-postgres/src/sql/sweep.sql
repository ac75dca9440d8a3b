-- Looks at some keys in order, and removes what has lapsed on those that nobody has asked for since. Waits for nobody.
--
-- The last key it looked at, in hexadecimal digits; nothing if there were no more.
CREATE OR REPLACE FUNCTION @v_sweep(p_after bytea, p_count smallint) RETURNS text
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  looked bytea[];
  one bytea;
BEGIN
-- [level.sql]
-- [clock.sql]
  looked := ARRAY(SELECT key FROM @keys WHERE key > p_after ORDER BY key LIMIT p_count);
  FOR one IN
    SELECT DISTINCT key FROM @places WHERE key = ANY (looked) AND (deadline <= v_now OR life <> v_life) ORDER BY key
  LOOP
    PERFORM 1 FROM @keys WHERE key = one FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      PERFORM @v_purge(one, NULL, v_now, v_life);
      DELETE FROM @keys WHERE key = one AND NOT EXISTS (SELECT FROM @places WHERE key = one);
    END IF;
  END LOOP;
  RETURN CASE WHEN cardinality(looked) = p_count THEN encode(looked[p_count], 'hex') END;
END
$tenure$;
