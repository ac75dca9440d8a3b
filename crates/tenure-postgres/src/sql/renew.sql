-- Prolongs the leases of many holds. Names the id and the number of each, and creates nothing. Rows are locked in the
-- order of their keys, so that two of these cannot wait for each other.
--
-- For each hold, in order: -1 if there is no such place; 0 if it lives on for the whole ttl; or, if its row is locked
-- and p_waits is false, how long it lives on without having been prolonged.
CREATE OR REPLACE FUNCTION @v_renew(p_keys bytea[], p_ids uuid[], p_seqs bigint[], p_ttls bigint[], p_waits boolean)
RETURNS bigint[]
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  locked bytea[];
  renewed bigint[];
  answers bigint[];
  hold record;
BEGIN
-- [level.sql]
  IF p_waits THEN
    locked := ARRAY(SELECT key FROM @keys WHERE key = ANY (p_keys) ORDER BY key FOR UPDATE);
  ELSE
    locked := ARRAY(SELECT key FROM @keys WHERE key = ANY (p_keys) ORDER BY key FOR UPDATE SKIP LOCKED);
  END IF;
-- [clock.sql]
  WITH done AS (
    UPDATE @places AS place
      SET ttl = greatest(place.ttl, wish.ttl), deadline = greatest(place.deadline, v_now + wish.ttl)
      FROM unnest(p_keys, p_ids, p_seqs, p_ttls) WITH ORDINALITY AS wish (key, id, seq, ttl, at)
      WHERE place.key = wish.key AND place.seq = wish.seq AND place.id = wish.id AND place.state = 0
        AND place.life = v_life AND v_now < place.deadline AND wish.key = ANY (locked)
      RETURNING wish.at
  ) SELECT coalesce(array_agg(at), '{}') INTO renewed FROM done;
  IF cardinality(renewed) = cardinality(p_keys) THEN
    RETURN array_fill(0::bigint, ARRAY[cardinality(p_keys)]);
  END IF;
  -- What is left has lapsed, is from another life of the server, or is locked by somebody.
  answers := array_fill(-1::bigint, ARRAY[cardinality(p_keys)]);
  FOR hold IN
    SELECT * FROM unnest(p_keys, p_ids, p_seqs, p_ttls) WITH ORDINALITY AS wish (key, id, seq, ttl, at)
  LOOP
    IF hold.at = ANY (renewed) THEN
      answers[hold.at] := 0;
    ELSIF hold.key = ANY (locked) THEN
      PERFORM @v_purge(hold.key, NULL, v_now, v_life);
      UPDATE @places SET ttl = greatest(ttl, hold.ttl), deadline = greatest(deadline, v_now + hold.ttl)
        WHERE key = hold.key AND seq = hold.seq AND id = hold.id AND state = 0;
      IF FOUND THEN
        answers[hold.at] := 0;
      END IF;
      DELETE FROM @keys WHERE key = hold.key AND NOT EXISTS (SELECT FROM @places WHERE key = hold.key);
    ELSE
      -- Nothing shortens a lease but an operator who breaks it, so what is there now is there until its deadline.
      answers[hold.at] := coalesce((
        SELECT deadline - v_now FROM @places
          WHERE key = hold.key AND seq = hold.seq AND id = hold.id AND state = 0 AND life = v_life
            AND v_now < deadline), -1);
    END IF;
  END LOOP;
  RETURN answers;
END
$tenure$;
