-- One row for each key that somebody holds or waits for, or did a moment ago. Every verb locks it first, and counts up,
-- so that servers that copy changes from each other (Galera) see that two verbs touched the same line.
--
-- Who is alone on a key stands in this row itself, from `id` to `label`: to take and to give back such a lock is one
-- statement that changes one row. As soon as anybody else comes, the place moves to the other table.
CREATE TABLE IF NOT EXISTS {lines} (
  h BINARY(32) NOT NULL COMMENT 'SHA-256 of the key',
  name VARBINARY(1024) NOT NULL COMMENT 'the key',
  life BINARY(8) NOT NULL COMMENT 'which life of the server wrote the deadlines',
  turns BIGINT NOT NULL,
  last BIGINT NOT NULL COMMENT 'the largest number so far',
  many TINYINT NOT NULL COMMENT '1 if the key may have rows in the other table',
  id BINARY(16) NOT NULL COMMENT 'claim that is alone, or zeros',
  seq BIGINT NOT NULL,
  mode TINYINT NOT NULL,
  take BIGINT NOT NULL,
  total BIGINT NOT NULL,
  ttl BIGINT NOT NULL,
  deadline BIGINT NOT NULL,
  taken BIGINT NOT NULL,
  who VARBINARY(128) NOT NULL,
  label VARBINARY(256) NOT NULL,
  bell BINARY(16) NOT NULL COMMENT 'its doorbell, or zeros',
  PRIMARY KEY (h)
) ENGINE=InnoDB COMMENT='tenure: one row per key in use';

-- One row for each place in a line of several. Times are microseconds since 1970 by the server's clock.
CREATE TABLE IF NOT EXISTS {places} (
  h BINARY(32) NOT NULL,
  id BINARY(16) NOT NULL COMMENT 'claim',
  seq BIGINT NOT NULL COMMENT 'number of the place',
  mode TINYINT NOT NULL COMMENT '0 exclusive, 1 shared, 2 permits',
  take BIGINT NOT NULL,
  total BIGINT NOT NULL,
  ttl BIGINT NOT NULL COMMENT 'the longest lease it was ever given',
  deadline BIGINT NOT NULL,
  taken BIGINT NOT NULL,
  state TINYINT NOT NULL COMMENT '0 stands, 1 evicted and free at its deadline, 2 released, 3 evicted',
  who VARBINARY(128) NOT NULL,
  label VARBINARY(256) NOT NULL,
  bell BINARY(16) NOT NULL COMMENT 'its doorbell, or zeros',
  PRIMARY KEY (h, id)
) ENGINE=InnoDB COMMENT='tenure: holders and waiters';

-- The largest number of the keys whose rows were removed, for all whose hash starts with the same byte.
CREATE TABLE IF NOT EXISTS {marks} (
  shard SMALLINT NOT NULL,
  n BIGINT NOT NULL,
  PRIMARY KEY (shard)
) ENGINE=InnoDB COMMENT='tenure: numbers never repeat';

-- Which engine this is, drawn at its first use.
CREATE TABLE IF NOT EXISTS {engine} (
  one TINYINT NOT NULL,
  identity BINARY(16) NOT NULL,
  PRIMARY KEY (one)
) ENGINE=InnoDB COMMENT='tenure: identity';
