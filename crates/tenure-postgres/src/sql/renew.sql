-- Prolongs the leases of many holds. Names the id and the number of each, and creates nothing. A lease is the business
-- of its own row alone: as long as nobody else works on that, no key need be locked for it.
--
-- For each hold, in order: -1 if there is no such place; 0 if it lives on for the whole ttl; or, if its row is locked,
-- how long it lives on without having been prolonged. If p_waits is true, those who work on the lines are waited for.
CREATE OR REPLACE FUNCTION @v_renew(p_keys bytea[], p_ids uuid[], p_seqs bigint[], p_ttls bigint[], p_waits boolean)
RETURNS bigint[]
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  renewed bigint[];
BEGIN
-- [level.sql]
  IF p_waits THEN
    -- In one order, so that two of these cannot wait for each other.
    PERFORM pg_advisory_xact_lock(lock) FROM (
      SELECT DISTINCT hashtextextended(encode(key, 'hex'), '@places'::regclass::oid::bigint) AS lock
        FROM unnest(p_keys) AS key ORDER BY lock) AS locks;
  END IF;
-- [clock.sql]
  WITH free AS (
    SELECT place.key, place.slot, wish.ttl, wish.at
      FROM unnest(p_keys, p_ids, p_seqs, p_ttls) WITH ORDINALITY AS wish (key, id, seq, ttl, at)
      JOIN @places AS place ON place.key = wish.key AND place.slot IN (0, wish.seq)
      WHERE place.seq = wish.seq AND place.id = wish.id AND place.state = 0 AND (place.life <> v_life OR v_now < place.deadline)
      FOR UPDATE OF place SKIP LOCKED
  ), done AS (
    -- What another life of the server wrote gets a whole lease, as from any verb.
    UPDATE @places AS place
      SET ttl = greatest(place.ttl, free.ttl), life = v_life,
        deadline = CASE WHEN place.life = v_life THEN greatest(place.deadline, v_now + free.ttl)
          ELSE v_now + greatest(place.ttl, free.ttl) END
      FROM free WHERE place.key = free.key AND place.slot = free.slot
      RETURNING free.at
  ) SELECT coalesce(array_agg(at), '{}') INTO renewed FROM done;
  IF cardinality(renewed) = cardinality(p_keys) THEN
    RETURN array_fill(0::bigint, ARRAY[cardinality(p_keys)]);
  END IF;
  -- What is left has lapsed, was never there, or is locked by somebody. Nothing shortens a lease but an operator who
  -- breaks it, so what is there now is there until its deadline.
  RETURN ARRAY(
    SELECT CASE WHEN wish.at = ANY (renewed) THEN 0 ELSE coalesce((
      SELECT CASE WHEN place.life = v_life THEN place.deadline - v_now ELSE 1 END FROM @places AS place
        WHERE place.key = wish.key AND place.slot IN (0, wish.seq) AND place.seq = wish.seq AND place.id = wish.id
          AND place.state = 0
          AND (place.life <> v_life OR v_now < place.deadline)), -1) END
    FROM unnest(p_keys, p_ids, p_seqs) WITH ORDINALITY AS wish (key, id, seq, at) ORDER BY wish.at);
END
$tenure$;
