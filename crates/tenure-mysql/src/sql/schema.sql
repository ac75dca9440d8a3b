-- One row for each key that somebody holds or waits for. Every verb locks it first, and counts up, so that servers
-- that copy changes from each other (Galera) see that two verbs touched the same line.
CREATE TABLE IF NOT EXISTS {lines} (
  h BINARY(32) NOT NULL COMMENT 'SHA-256 of the key',
  name VARBINARY(1024) NOT NULL COMMENT 'the key',
  life BINARY(8) NOT NULL COMMENT 'which life of the server wrote the deadlines',
  turns BIGINT NOT NULL,
  PRIMARY KEY (h)
) ENGINE=InnoDB COMMENT='tenure: one row per key in use';

-- One row for each place in a line. Times are microseconds since 1970 by the server's clock.
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
  PRIMARY KEY (h, id)
) ENGINE=InnoDB COMMENT='tenure: holders and waiters';

-- The largest number drawn so far, for all keys whose hash starts with the same byte: it outlives their rows.
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
