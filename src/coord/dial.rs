//! A node calls its coordinator: one of several addresses, then a line with the node's name.
#![forbid(unsafe_code)]

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tcpx_bootstrap::{BootstrapError, Cause, Deadline, Reader, Secret, Writer};

/// Longest time to call all addresses.
const CALL_MAX: Duration = Duration::from_secs(15);
/// Longest time for one address: another one may be reachable where this one is not.
const ADDRESS_MAX: Duration = Duration::from_secs(3);

/// Calls the coordinator at the first of these addresses that answers.
///
/// # Errors
/// No coordinator with this secret answers in [`CALL_MAX`]; the text names the address.
pub(crate) fn dial(
    name: &str,
    addresses: &[SocketAddr],
    secret: &Secret,
    stop: &AtomicBool,
) -> Result<(Reader, Writer), String> {
    let since = Instant::now();
    let mut last = "no address is given".to_owned();
    while !addresses.is_empty() && since.elapsed() < CALL_MAX && !stop.load(Ordering::Relaxed) {
        for &address in addresses {
            let most = CALL_MAX.saturating_sub(since.elapsed()).min(ADDRESS_MAX);
            let deadline = Deadline::after("the time to call the coordinator", most);
            match tcpx_bootstrap::call(address, secret, deadline, stop) {
                Ok((reader, mut writer)) => {
                    let said = writeln!(writer, "{name}");
                    said.map_err(|error| format!("cannot call {address}: {error}"))?;
                    return Ok((reader, writer));
                }
                Err(error) => last = failed(address, &error),
            }
        }
    }
    Err(last)
}

fn failed(address: SocketAddr, error: &BootstrapError) -> String {
    let why = match &error.cause {
        Cause::WrongSecret => "the coordinator there has another secret".to_owned(),
        cause => cause.to_string(),
    };
    format!("cannot call the coordinator at {address}: {why}")
}
