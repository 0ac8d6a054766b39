//! `tcpxctl serve`: waits for a coordinator that joins this node without ssh.
//!
//! ```console
//! node1$ tcpxctl serve --secret-file secret
//! node0$ tcpxctl run scenarios/4conn.toml --join 10.0.0.226:18500 --secret-file secret
//! ```
//!
//! The secret authenticates both ends and encrypts what they say. A coordinator with the secret can
//! start plugins as the user who runs `serve`. The bytes of a transfer cross as the plugin sends
//! them.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{print, print_error, say};
use super::signals::interrupted;
use anyhow::Context;
use clap::Args;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tcpx_bootstrap::secret_file;
use tcpx_coord::reach::serve::{self, Serving};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:18500")]
    listen: SocketAddr,
    /// Secret that both nodes share; it encrypts the connection, and a user who has it can run
    /// plugins on this node. If the file does not exist, it is created with mode 0600.
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Exit when the first coordinator has left.
    #[arg(long)]
    once: bool,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let (secret, is_new) = secret_file::read_or_make(&arguments.secret_file)
        .map_err(|why| Failure::new(Outcome::Usage, why))?;
    let listener = TcpListener::bind(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))
        .map_err(|error| Failure::from(error).next("give another --listen ADDRESS:PORT"))?;
    let stop = interrupted()?;
    // Under --json, stdout is for an error alone.
    let tell = if common.json { say } else { print };
    let file = arguments.secret_file.display();
    if is_new {
        tell(&format!(
            "# Made the secret {file}: copy it to the other node, readable by you alone\n"
        ));
    }
    let address = listener.local_addr().unwrap_or(arguments.listen);
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
