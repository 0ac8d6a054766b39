//! `tcpxctl serve`: waits for a coordinator that joins this node without ssh.
//!
//! ```console
//! node1$ tcpxctl serve --secret-file secret
//! node0$ tcpxctl run scenarios/4conn.toml --join 10.0.0.226:18500 --secret-file secret
//! ```
//!
//! Or the node calls a coordinator that waits for many (`run --launcher join`):
//!
//! ```console
//! node1$ tcpxctl serve --call 10.0.1.25:18501 --secret-file secret
//! node0$ tcpxctl run scenarios/mesh.toml --launcher join --nodes 16 --secret-file secret
//! ```
//!
//! The secret authenticates both ends and encrypts what they say. A coordinator with the secret can
//! start plugins as the user who runs `serve`. The bytes of a transfer cross as the plugin sends
//! them.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{path_text, print, print_error, say};
use super::signals::interrupted;
use anyhow::Context;
use clap::Args;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tcpx_bootstrap::{listen_at, secret_file};
use tcpx_coord::reach::call_out::{CallOut, Calling};
use tcpx_coord::reach::serve::{self, Serving};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Address and port to listen on; `[::]` is every address, of IPv4 too.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:18500")]
    listen: SocketAddr,
    /// Secret that both nodes share; it encrypts the connection, and a user who has it can run
    /// plugins on this node. If the file does not exist, it is created with mode 0600.
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Call a coordinator instead, which runs with --launcher join, until it is there, and again after it
    /// has left.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "listen")]
    call: Option<String>,
    /// Name of this node in the coordinator's tables; its host name by default.
    #[arg(long, value_name = "NAME", requires = "call")]
    name: Option<String>,
    /// Exit when the first coordinator has left.
    #[arg(long)]
    once: bool,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if let Some(coordinator) = &arguments.call {
        return call(common, arguments, coordinator);
    }
    let (secret, is_new) = secret_file::read_or_make(&arguments.secret_file)
        .map_err(|why| Failure::new(Outcome::Usage, why))?;
    let (listener, address) = listen(arguments.listen)?;
    let stop = interrupted()?;
    // Under --json, stdout is for an error alone.
    let tell = if common.json { say } else { print };
    let file = path_text(&arguments.secret_file);
    if is_new {
        tell(&format!(
            "# Made the secret {file}: copy it to the other node, readable by you alone\n"
        ));
    }
    tell(&format!(
        "# Waiting on {address} for a coordinator with this secret; the connection is encrypted\n"
    ));
    let served = serve::serve(
        &listener,
        &secret,
        arguments.once,
        || stop.load(Ordering::Relaxed),
        |event| match event {
            Serving::Joined(from) => tell(&format!("# {from} joined\n")),
            Serving::Left(from, Ok(())) => tell(&format!("# {from} left\n")),
            Serving::Left(from, Err(why)) => tell(&format!("# {from} left: {why}\n")),
            Serving::Ended(from, true) => {
                tell(&format!("# {from} was told that serve ends here\n"))
            }
            Serving::Ended(from, false) => tell(&format!(
                "# {from} is served no more: its agent did not end in time, so the connection was closed\n"
            )),
            Serving::TurnedAway(from, holder) => tell(&format!(
                "# {from} was turned away: {holder} is served at the moment\n"
            )),
            Serving::Failed(from, why) => {
                print_error(common, format!("{from} got no agent: {why}"), None);
            }
            Serving::Refused { count, last, why } => {
                let who = match count {
                    1 => format!("{last} was refused"),
                    _ => format!("{count} connections were refused, the last from {last}"),
                };
                print_error(common, format!("{who}: {why}"), None);
            }
        },
    );
    match served {
        Ok(()) if stop.load(Ordering::Relaxed) => Ok(Ending::from(Outcome::Interrupted)),
        Ok(()) => Ok(Ending::PASSED),
        Err(error) => Err(Failure::new(
            Outcome::NotRun,
            format!("cannot go on waiting on {address}: {error}"),
        )),
    }
}

/// Listens at an address. Also returns where, in words: `[::]:18500 (IPv4 and IPv6)`.
pub(super) fn listen(at: SocketAddr) -> Result<(TcpListener, String), Failure> {
    let listener = listen_at(at)
        .with_context(|| format!("cannot listen on {at}"))
        .map_err(|error| Failure::from(error).next("give another --listen ADDRESS:PORT"))?;
    let at = listener.local_addr().unwrap_or(at);
    let families = match at {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => " (IPv4 only)",
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => " (IPv4 and IPv6)",
        _ => "",
    };
    Ok((listener, format!("{at}{families}")))
}

/// Calls a coordinator until it is there, and again after it has left.
fn call(common: &Common, arguments: &Arguments, coordinator: &str) -> Ended {
    let secret = secret_file::read(&arguments.secret_file)
        .map_err(|why| Failure::new(Outcome::Usage, why))?;
    let host = tcpx_node::Host::read(&tcpx_node::Root::live()).name;
    let name = arguments.name.as_ref().or(host.known());
    let Some(name) = name.filter(|name| tcpx_fleet::node_list::is_name(name)) else {
        return Err(Failure::new(Outcome::Usage, "this node has no usable name")
            .next("give one of letters, digits, `-`, `.` and `_` with --name NAME"));
    };
    let stop = interrupted()?;
    let tell = if common.json { say } else { print };
    let calls = CallOut {
        name,
        coordinator,
        secret: &secret,
        once: arguments.once,
        stop: &stop,
    };
    tell(&format!(
        "# {name} calls {coordinator}; the connection is encrypted\n"
    ));
    calls.run(|event| match event {
        Calling::Taken(from) => tell(&format!("# {from} took the call\n")),
        Calling::Left(Ok(())) => tell(&format!("# {coordinator} left\n")),
        Calling::Left(Err(why)) => tell(&format!("# {coordinator} left: {why}\n")),
        Calling::Ended(true) => tell(&format!(
            "# {coordinator} was told that serve ends here\n"
        )),
        Calling::Ended(false) => tell(&format!(
            "# {coordinator} is served no more: its agent did not end in time, so the connection was closed\n"
        )),
        Calling::Waiting(why) => tell(&format!("# waiting: {why}\n")),
    });
    match stop.load(Ordering::Relaxed) {
        true => Ok(Ending::from(Outcome::Interrupted)),
        false => Ok(Ending::PASSED),
    }
}
