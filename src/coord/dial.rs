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

/// A later attempt in less time than this would time out, and hide what the one before it found.
const ATTEMPT_MIN: Duration = Duration::from_millis(500);

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
    dial_within(name, addresses, secret, stop, (CALL_MAX, ADDRESS_MAX))
}

fn dial_within(
    name: &str,
    addresses: &[SocketAddr],
    secret: &Secret,
    stop: &AtomicBool,
    (call_max, address_max): (Duration, Duration),
) -> Result<(Reader, Writer), String> {
    let since = Instant::now();
    let mut has_tried = false;
    let mut last = "no address is given".to_owned();
    while !addresses.is_empty() && since.elapsed() < call_max && !stop.load(Ordering::Relaxed) {
        for &address in addresses {
            let left = call_max.saturating_sub(since.elapsed());
            if left < ATTEMPT_MIN && has_tried {
                return Err(last);
            }
            has_tried = true;
            let most = left.min(address_max);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_attempt_without_time_does_not_hide_why_the_one_before_it_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let max = Duration::from_millis(100);
        let error = dial_within(
            "a3-1",
            &[address, address],
            &Secret::generate().expect("a secret"),
            &AtomicBool::new(false),
            (max, max),
        );
        let error = error.map(drop).expect_err("nothing listens");
        assert!(error.ends_with("the connection was refused"), "{error}");
    }
}
