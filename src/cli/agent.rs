//! `tcpxctl agent`: the agent of a node. A coordinator starts it and speaks to it over stdin and stdout, or
//! a launcher starts it and it calls its coordinator.
#![forbid(unsafe_code)]

use super::failure::{Ended, Ending, Failure};
use clap::Args;
use std::io::{self, Read};
use std::net::SocketAddr;
use tcpx_bootstrap::Secret;
use tcpx_coord::agent;
use tcpx_coord::reach::tasks::SECRET_VARIABLE;
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Address of the coordinator; the secret is the first line of stdin, or in the environment.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "name")]
    call: Vec<SocketAddr>,
    /// The node's name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// More than the 64 digits of a secret and a line end.
const SECRET_BYTES_MAX: usize = 80;

pub(crate) fn main(arguments: &Arguments) -> Ended {
    let Some(name) = arguments
        .name
        .as_ref()
        .filter(|_| !arguments.call.is_empty())
    else {
        return Ok(Ending(agent::main()));
    };
    let secret = secret().map_err(|why| Failure::new(Outcome::Usage, why))?;
    let called = agent::call(name, &arguments.call, &secret);
    called
        .map(Ending)
        .map_err(|why| Failure::new(Outcome::PeerLost, format!("{name}: {why}")))
}

fn secret() -> Result<Secret, String> {
    let text = match std::env::var(SECRET_VARIABLE) {
        Ok(text) => text,
        Err(_) => first_line().map_err(|error| format!("cannot read the secret: {error}"))?,
    };
    Secret::from_hex(text.trim()).map_err(|error| error.to_string())
}

/// The first line of stdin, which may not end after it.
fn first_line() -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    // Byte by byte, because a read of more would wait for an end that may not come.
    while line.len() < SECRET_BYTES_MAX && io::stdin().read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}
