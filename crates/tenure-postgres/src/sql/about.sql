INSERT INTO @about (version, identity)
VALUES (@version, md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text)::uuid)
ON CONFLICT (one) DO UPDATE SET version = greatest(@about_name.version, excluded.version);
