-- What tenure keeps in a database. Running it again changes nothing.
--
-- @places   the lines; times are microseconds of this server's clock, UTC
--             slot      0 in the key's own row, which every key with rows has; in the others the number of the place.
--                       Whoever finds nobody in line stands in the key's own row, so its place is the first
--             mode      0 exclusive, 1 shared, 2 permits (take of total)
--             state     0 stands, 1 evicted and free at its deadline, 2 released, 3 evicted (2 and 3 only refuse the id);
--                       4 nobody, in the key's own row, which stays for a minute so that the next need not make it
--             many      in the key's own row, whether the key may have others
--             holds     whether it stands in the front of the line, and was told so
--             ttl       the longest lease it was ever given; deadline is when the present one ends
--             life      the life of the server that wrote the deadline: when it started
--             client    whom to tell; empty if nobody listens
--             turn      the last turn on it that a guarded transaction asked for
-- @numbers  the numbers of places, for all keys; it starts at the clock, so that it goes on above if it is made anew
-- @about    the version of all this, and the identity of this store

DO $tenure$
BEGIN
  IF to_regnamespace('@schema') IS NULL THEN
    CREATE SCHEMA @schema;
  END IF;
END
$tenure$;

CREATE TABLE IF NOT EXISTS @about (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version integer NOT NULL,
  identity uuid NOT NULL
);

CREATE TABLE IF NOT EXISTS @places (
  key bytea NOT NULL,
  slot bigint NOT NULL,
  seq bigint NOT NULL,
  id uuid NOT NULL,
  mode smallint NOT NULL,
  take bigint NOT NULL,
  total bigint NOT NULL,
  state smallint NOT NULL,
  holds boolean NOT NULL,
  many boolean NOT NULL DEFAULT false,
  ttl bigint NOT NULL,
  deadline bigint NOT NULL,
  taken bigint NOT NULL,
  life bigint NOT NULL,
  client text NOT NULL,
  note bytea NOT NULL,
  turn smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (key, slot)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE SEQUENCE IF NOT EXISTS @numbers MAXVALUE 9007199254740991 CACHE 1;

SELECT setval('@numbers', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) FROM @numbers WHERE NOT is_called;
