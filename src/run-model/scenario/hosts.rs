//! Lists of nodes under `node_ips/`: one host per line.
//!
//! ```text
//! # control addresses; the data NICs are found on the node
//! 10.0.1.25
//! 10.0.0.226   name=node1 user=maint port=2222 key=/keys/lab   # how to get there
//! node2 slots=8
//! ```
//!
//! Fields after the host are `key=value`, in any order. The fields of an mpirun hostfile
//! (`slots`, `max_slots`, `max-slots`) are ignored, so that both programs can use one file. `#`
//! starts a comment at the beginning of a line or after a space.
//!
//! Not here: looking a name up, or reaching it.
#![forbid(unsafe_code)]

use crate::scenario::error::printable;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tcpx_words::error::{NextStep, Outcome};

/// More nodes than one command drives.
pub const HOSTS_MAX: usize = 1024;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name of the node in tables and in `[env.node.NAME]`; the host if the line gives no name.
    pub name: String,
    /// Address or host name to connect to.
    pub host: String,
    /// The user to log in as.
    pub user: Option<String>,
    /// The port of its sshd.
    pub port: Option<u16>,
    /// The private key to log in with.
    pub key: Option<PathBuf>,
}

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// It does not exist, cannot be read, or is not UTF-8 text.
    #[error("cannot read the list of hosts {}: {source}", shown(path))]
    Unreadable {
        /// As it was given.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Refused without reading it all.
    #[error(
        "{} is not a list of hosts: larger than {FILE_BYTES_MAX} bytes",
        shown(path)
    )]
    TooLarge {
        /// As it was given.
        path: PathBuf,
    },
    /// A line that is not a host.
    #[error("{}:{line}: {problem}", shown(path))]
    Line {
        /// As it was given.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// It has no host.
    #[error("{} names no host", shown(path))]
    Empty {
        /// As it was given.
        path: PathBuf,
    },
}

impl HostsError {
    /// Whose problem it is: the request was wrong.
    pub fn outcome(&self) -> Outcome {
        Outcome::Usage
    }
}

impl NextStep for HostsError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Line { .. } | Self::Empty { .. } => {
                Some("write one host per line, such as 10.0.1.25 or 10.0.1.25 name=node0 user=me port=22".to_owned())
            }
            Self::Unreadable { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Reads a list.
///
/// # Errors
/// A file that cannot be read, and the first line that is wrong or a duplicate.
pub fn read(path: &Path) -> Result<Vec<Host>, HostsError> {
    let unreadable = |source| HostsError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    tcpx_words::input::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(HostsError::TooLarge {
            path: path.to_owned(),
        });
    }
    let text =
        String::from_utf8(bytes).map_err(|_| unreadable(io::Error::other("not UTF-8 text")))?;
    let at = |(line, problem)| HostsError::Line {
        path: path.to_owned(),
        line,
        problem,
    };
    let hosts = parse(&text).map_err(at)?;
    if hosts.is_empty() {
        Err(HostsError::Empty {
            path: path.to_owned(),
        })
    } else {
        Ok(hosts)
    }
}

/// The hosts of a text, or the number of the first wrong line and its problem.
pub(super) fn parse(text: &str) -> Result<Vec<Host>, (usize, String)> {
    let mut hosts = Vec::new();
    let mut seen = Seen::default();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = index + 1;
        let Some(host) = host(line).map_err(|problem| (number, problem))? else {
            continue;
        };
        seen.refuse_again(&host, number)
            .map_err(|problem| (number, problem))?;
        hosts.push(host);
        if hosts.len() > HOSTS_MAX {
            return Err((number, format!("more than {HOSTS_MAX} hosts")));
        }
    }
    Ok(hosts)
}

/// Line of each address and name, to find duplicates.
#[derive(Default)]
struct Seen {
    addresses: BTreeMap<(String, Option<u16>), usize>,
    names: BTreeMap<String, usize>,
}

impl Seen {
    fn refuse_again(&mut self, host: &Host, line: usize) -> Result<(), String> {
        if let Some(first) = self.addresses.insert((host.host.clone(), host.port), line) {
            return Err(format!("{} is already on line {first}", host.host));
        }
        match self.names.insert(host.name.clone(), line) {
            Some(first) => Err(format!("the name {} is already on line {first}", host.name)),
            None => Ok(()),
        }
    }
}

fn host(line: &str) -> Result<Option<Host>, String> {
    let mut words = line
        .split_whitespace()
        .take_while(|word| !word.starts_with('#'));
    let Some(first) = words.next() else {
        return Ok(None);
    };
    let (user, address) = match first.split_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, first),
    };
    if !is_host(address) {
        return Err(format!(
            "`{}` is neither an address nor a host name",
            printable(address, 60)
        ));
    }
    let name = address.to_owned();
    let mut host = Host {
        host: name.clone(),
        name,
        user: None,
        port: None,
        key: None,
    };
    user.map_or(Ok(()), |user| field(&mut host, "user", user))?;
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("`{}` is not of the form key=value", printable(word, 60)))?;
        field(&mut host, key, value)?;
    }
    Ok(Some(host))
}

fn field(host: &mut Host, key: &str, value: &str) -> Result<(), String> {
    let wrong = |expected: &str| {
        format!(
            "{key} cannot be `{}`: expected {expected}",
            printable(value, 60)
        )
    };
    match key {
        "name" if is_name(value) => host.name = value.to_owned(),
        "name" => return Err(wrong("letters, digits, `.`, `_` and `-`")),
        "user" if is_name(value) => host.user = Some(value.to_owned()),
        "user" => return Err(wrong("a user name")),
        "port" => {
            let port = value.parse().ok().filter(|port| *port > 0);
            host.port = Some(port.ok_or_else(|| wrong("a port from 1 to 65535"))?);
        }
        // ssh would take a value that begins with a dash for an option.
        "key"
            if !value.is_empty() && !value.starts_with('-') && value == printable(value, 4096) =>
        {
            host.key = Some(PathBuf::from(value));
        }
        "key" => return Err(wrong("a file")),
        // Used by mpirun; here the scenario decides how many processes run.
        "slots" | "max_slots" | "max-slots" => {}
        _ => {
            return Err(format!(
                "`{}` is not one of name, user, port, key",
                printable(key, 60)
            ));
        }
    }
    Ok(())
}

fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
        || (is_name(text) && !text.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Whether ssh and the file system accept it as a name, and not as an option.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=253).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(fits)
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy(), 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let said = match parse(text) {
            Ok(hosts) => hosts.iter().map(shown_host).collect::<Vec<_>>().join("; "),
            Err((line, problem)) => format!("line {line}: {problem}"),
        };
        assert_eq!(said, expected, "{text:?}");
    }

    fn shown_host(host: &Host) -> String {
        let mut shown = host.host.clone();
        if host.name != host.host {
            shown += &format!(" name={}", host.name);
        }
        host.user
            .iter()
            .for_each(|user| shown += &format!(" user={user}"));
        host.port
            .iter()
            .for_each(|port| shown += &format!(" port={port}"));
        host.key
            .iter()
            .for_each(|key| shown += &format!(" key={}", key.display()));
        shown
    }

    #[test]
    fn lists_with_comments_blank_lines_and_mpirun_fields_are_read() {
        check("", "");
        check("10.0.1.25\n10.0.0.226", "10.0.1.25; 10.0.0.226");
        check(
            "# two nodes\n\n  10.0.1.25\r\n10.0.0.226 # the second\r\n",
            "10.0.1.25; 10.0.0.226",
        );
        check("\u{feff}node-a.lab\nfd00::1\n", "node-a.lab; fd00::1");
        check(
            "10.0.1.25 slots=8 max_slots=8\nnode1 max-slots=2",
            "10.0.1.25; node1",
        );
        check(
            "10.0.1.25 port=22 name=n0 key=/k user=me\nyou@10.0.0.226",
            "10.0.1.25 name=n0 user=me port=22 key=/k; 10.0.0.226 user=you",
        );
        check(
            "127.0.0.1 port=1 name=a\n127.0.0.1 port=2 name=b",
            "127.0.0.1 name=a port=1; 127.0.0.1 name=b port=2",
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        check(
            "10.0.1.25\n\n10.0.1.256",
            "line 3: `10.0.1.256` is neither an address nor a host name",
        );
        check(
            "-oProxyCommand=x",
            "line 1: `-oProxyCommand=x` is neither an address nor a host name",
        );
        check(
            "a\u{1b}[31m",
            "line 1: `a[31m` is neither an address nor a host name",
        );
        check(
            "10.0.1.25:8",
            "line 1: `10.0.1.25:8` is neither an address nor a host name",
        );
        check("a b", "line 1: `b` is not of the form key=value");
        check(
            "a port=0",
            "line 1: port cannot be `0`: expected a port from 1 to 65535",
        );
        check(
            "a port=99999",
            "line 1: port cannot be `99999`: expected a port from 1 to 65535",
        );
        check("-x@a", "line 1: user cannot be `-x`: expected a user name");
        check("a key=-i", "line 1: key cannot be `-i`: expected a file");
        check(
            "a colour=red",
            "line 1: `colour` is not one of name, user, port, key",
        );
        check("a\nb\na", "line 3: a is already on line 1");
        check("a\nb name=a", "line 2: the name a is already on line 1");
    }

    #[test]
    fn the_shipped_list_holds_the_two_nodes() {
        let hosts = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../node_ips/tcpx.txt"))
            .expect("reads");
        assert_eq!(
            hosts.iter().map(shown_host).collect::<Vec<_>>(),
            ["10.0.1.25", "10.0.0.226"]
        );
    }

    #[test]
    fn a_folder_binary_data_and_an_empty_file_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("list");
        let said = |path: &Path| {
            read(path)
                .expect_err("no list")
                .to_string()
                .replace(&*folder.path().to_string_lossy(), "")
        };
        assert_eq!(
            said(&file),
            "cannot read the list of hosts /list: No such file or directory (os error 2)"
        );
        assert_eq!(
            said(folder.path()),
            "cannot read the list of hosts : Is a directory (os error 21)"
        );
        for (bytes, expected) in [
            (&b"# none\n"[..], "/list names no host"),
            (
                b"\xff\xfe",
                "cannot read the list of hosts /list: not UTF-8 text",
            ),
            (b"a b\n", "/list:1: `b` is not of the form key=value"),
        ] {
            std::fs::write(&file, bytes).expect("a file");
            assert_eq!(said(&file), expected);
        }
        std::fs::write(&file, vec![b'#'; 1 + (1 << 20)]).expect("a file");
        assert_eq!(
            said(&file),
            "/list is not a list of hosts: larger than 1048576 bytes"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_list_or_is_refused(text in "(?s).{0,400}") {
            let _ = parse(&text);
        }
    }
}
