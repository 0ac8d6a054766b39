//! What an endpoint is made with.
#![forbid(unsafe_code)]

use crate::{Error, MemoryOf};
use std::net::IpAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tcpx_bootstrap::{Secret, secret_file};

/// The shared secret as 64 hexadecimal digits.
pub const SECRET_VARIABLE: &str = "TCPXP2P_SECRET";
/// The file that holds the shared secret, as `tcpxctl serve` makes it.
pub const SECRET_FILE_VARIABLE: &str = "TCPXP2P_SECRET_FILE";
/// How many threads drive lanes at once.
pub const THREADS_VARIABLE: &str = "TCPXP2P_THREADS";
/// Most lanes of a connection.
pub(crate) const LANES_MAX: usize = 256;

/// Options of an endpoint.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name, in errors and views.
    pub name: String,
    /// `auto`, `soft`, `builtin`, a name or a path.
    pub plugin: String,
    /// The program of tcpxctl, beside which the software plugin is looked for; `None` is the program
    /// of this process.
    pub program: Option<PathBuf>,
    /// Where it listens; `None` takes the address of the plugin's first device.
    pub address: Option<IpAddr>,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Lanes per connection, on the plugin's devices in turn; each is two comms.
    pub lanes: usize,
    /// Bytes of one message of the plugin.
    pub chunk: usize,
    /// Threads that drive lanes at once; `None` for half the CPUs that the process may use.
    pub threads: Option<NonZero<usize>>,
    /// Whose memory it moves.
    pub memory: MemoryOf,
    /// What both ends must know besides the metadata.
    pub secret: Option<Secret>,
    /// How long a connection may take.
    pub connect_within: Duration,
    /// A connection that owes something and moves nothing for so long is given up.
    pub stall_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: format!("endpoint-{}", std::process::id()),
            plugin: "auto".into(),
            program: None,
            address: None,
            port: 0,
            lanes: 4,
            chunk: 512 * 1024,
            threads: None,
            memory: MemoryOf::Host,
            secret: None,
            connect_within: Duration::from_secs(60),
            stall_after: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// The defaults, with the secret and the number of threads that the environment names.
    ///
    /// # Errors
    /// The secret cannot be read, or the number is none.
    pub fn from_environment() -> Result<Self, Error> {
        let secret = match (variable(SECRET_VARIABLE), variable(SECRET_FILE_VARIABLE)) {
            (Some(hex), _) => Some(
                Secret::from_hex(hex.trim())
                    .map_err(|error| Error::Usage(format!("${SECRET_VARIABLE}: {error}")))?,
            ),
            (None, Some(file)) => Some(read_secret(Path::new(&file))?),
            (None, None) => None,
        };
        let threads = variable(THREADS_VARIABLE).map(|text| {
            let wrong = |_| {
                Error::Usage(format!(
                    "${THREADS_VARIABLE}: `{text}` is no number from 1 on"
                ))
            };
            text.trim().parse().map_err(wrong)
        });
        Ok(Self {
            secret,
            threads: threads.transpose()?,
            ..Self::default()
        })
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Usage(what));
        match self {
            _ if !(1..=LANES_MAX).contains(&self.lanes) => wrong(format!(
                "{} lanes: 1 to {LANES_MAX} are possible",
                self.lanes
            )),
            _ if !(4096..=64 << 20).contains(&self.chunk) => wrong(format!(
                "a chunk of {} bytes: 4 KiB to 64 MiB are possible",
                self.chunk
            )),
            _ if self.name.is_empty() || self.name.len() > 64 => {
                wrong("the name of an endpoint has 1 to 64 bytes".into())
            }
            _ => Ok(()),
        }
    }
}

/// The secret of a file that only its owner can read.
///
/// # Errors
/// The file cannot be read, others can read it, or it holds no secret.
pub fn read_secret(file: &Path) -> Result<Secret, Error> {
    secret_file::read(file).map_err(Error::Usage)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
