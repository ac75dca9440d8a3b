//! What only this engine can get wrong, on private servers.
#![cfg(target_os = "linux")]

mod crowd;
mod differential;
mod forgets;
mod hostile;
mod leases;
mod links;
mod numbers;
mod refused;
mod servers;
mod support;
