//! SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, the second ends at once.
#![forbid(unsafe_code)]

use super::failure::Failure;
use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The flag that the first signal sets.
pub(crate) fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    Ok(register().context("cannot catch signals")?)
}

fn register() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the flag set and exits. Agents and workers then
        // end because their control streams close.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
