//! A worker with a fake device, as `python/` uses it.
#![allow(unsafe_code)] // Launches and copies are unsafe calls.

mod arguments;
mod failing;
mod fake;
mod faults;
mod launches;
mod life;
mod lives;
mod memory;
mod packed;
mod prepared;
mod stale;
