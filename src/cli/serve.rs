//! `tcpxctl serve`: wait here for a coordinator that joins, where there is no ssh.
//!
//! ```console
//! node1$ tcpxctl serve --secret-file secret
//! node0$ tcpxctl run scenarios/4conn.toml --join 10.0.0.226:18500 --secret-file secret
//! ```
#![forbid(unsafe_code)]

use super::Common;
use super::output::{complain, print};
use super::signals::interrupted;
use clap::Args;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use tcpx_coord::reach::join::{self, Serving};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to wait.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:18500")]
    listen: SocketAddr,
    /// What both sides know; made here, readable by you alone, when there is no such file.
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// End when the first coordinator has left.
    #[arg(long)]
    once: bool,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> ExitCode {
    let refuse = |outcome: Outcome, why: String, next: Option<&str>| {
        complain(common, why, next.map(str::to_owned));
        ExitCode::from(outcome.exit_code())
    };
    let (secret, is_new) = match join::read_or_make_secret(&arguments.secret_file) {
        Ok(secret) => secret,
        Err(why) => return refuse(Outcome::Usage, why, None),
    };
    let listener = match TcpListener::bind(arguments.listen) {
        Ok(listener) => listener,
        Err(error) => {
            let why = format!("cannot listen on {}: {error}", arguments.listen);
            return refuse(
                Outcome::NotRun,
                why,
                Some("give another --listen ADDRESS:PORT"),
            );
        }
    };
    let stop = match interrupted(common) {
        Ok(flag) => flag,
        Err(code) => return code,
    };
    let file = arguments.secret_file.display();
    if is_new {
        print(&format!(
            "# Made the secret {file}: copy it to the other node, readable by you alone\n"
        ));
    }
    let address = listener.local_addr().unwrap_or(arguments.listen);
    print(&format!(
        "# Waiting on {address}; what joins is authenticated and not encrypted\n"
    ));
    let served = join::serve(
        &listener,
        &secret,
        arguments.once,
        || stop.load(Ordering::Relaxed),
        |told| match told {
            Serving::Joined(from) => print(&format!("# {from} joined\n")),
            Serving::Left(from) => print(&format!("# {from} left\n")),
            Serving::Refused(from, why) => {
                complain(common, format!("{from} was refused: {why}"), None)
            }
        },
    );
    match served {
        Ok(()) if stop.load(Ordering::Relaxed) => ExitCode::from(Outcome::Interrupted.exit_code()),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(Outcome::NotRun, format!("cannot go on: {error}"), None),
    }
}
