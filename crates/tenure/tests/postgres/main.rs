//! What users of locks in PostgreSQL see when the server, the network or a pooler breaks.
#![cfg(target_os = "linux")]
