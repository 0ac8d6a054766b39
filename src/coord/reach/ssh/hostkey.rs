//! Checks the server's host key against the known_hosts files.
//!
//! libssh2 compares the server's key with the first known key of the host, of any type, while the
//! server shows a key of the negotiated type. So only the types that are known for the host are
//! negotiated, and the key is compared only with entries of its own type.
#![forbid(unsafe_code)]

use super::super::ReachError;
use super::Target;
use super::config::Settings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ssh2::{
    CheckResult, ErrorCode, HostKeyType, KnownHostFileKind, KnownHosts, MethodType, Session,
};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use tcpx_words::error::Outcome;

/// A type of host key: its name in known_hosts, and its signature algorithms in a session.
struct KeyType {
    name: &'static str,
    methods: &'static str,
}

const KEY_TYPES: [KeyType; 5] = [
    KeyType {
        name: "ssh-ed25519",
        methods: "ssh-ed25519",
    },
    KeyType {
        name: "ecdsa-sha2-nistp256",
        methods: "ecdsa-sha2-nistp256",
    },
    KeyType {
        name: "ecdsa-sha2-nistp384",
        methods: "ecdsa-sha2-nistp384",
    },
    KeyType {
        name: "ecdsa-sha2-nistp521",
        methods: "ecdsa-sha2-nistp521",
    },
    KeyType {
        name: "ssh-rsa",
        methods: "rsa-sha2-512,rsa-sha2-256",
    },
];
const NO_COMMON_METHOD: ErrorCode = ErrorCode::Session(-5);
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The lines of the known_hosts files, and the host to look up.
pub(super) struct Known {
    lines: Vec<String>,
    host: String,
    port: u16,
    add_to: Option<PathBuf>,
}

impl Known {
    /// Reads the user's and the system's files.
    pub(super) fn read(node: &str, settings: &Settings) -> Result<Self, ReachError> {
        let mut lines = Vec::new();
        for path in &settings.known_hosts {
            let mut text = Vec::new();
            match std::fs::File::open(path)
                .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text))
            {
                Ok(_) => lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let what = format!(
                        "cannot read the known_hosts file {}: {error}",
                        path.display()
                    );
                    return Err(ReachError::new(node, Outcome::NotRun, what));
                }
            }
        }
        let (host, port) = match &settings.key_alias {
            Some(alias) => (alias.clone(), 22),
            None => (settings.host.clone(), settings.port),
        };
        Ok(Self {
            lines,
            host,
            port,
            add_to: settings.known_hosts.first().cloned(),
        })
    }

    /// The entries of one type. Lines that libssh2 cannot parse are ignored.
    fn entries_of(&self, session: &Session, key_type: &KeyType) -> Option<KnownHosts> {
        let mut hosts = session.known_hosts().ok()?;
        let is_of_type = |line: &&String| {
            line.split_whitespace()
                .take(3)
                .any(|word| word == key_type.name)
        };
        for line in self.lines.iter().filter(is_of_type) {
            let _ = hosts.read_str(line, KnownHostFileKind::OpenSSH);
        }
        Some(hosts)
    }

    /// Whether there is an entry for the host. Compares a key that differs from every entry: a
    /// mismatch shows that there is one.
    fn has(&self, session: &Session, key_type: &KeyType) -> bool {
        let Some(hosts) = self.entries_of(session, key_type) else {
            return false;
        };
        matches!(
            hosts.check_port(&self.host, self.port, b"no key"),
            CheckResult::Mismatch
        )
    }

    /// Negotiates only types of host key that are known for the host, or all types if none is
    /// known.
    pub(super) fn prefer(&self, session: &Session) {
        let (known, other): (Vec<&KeyType>, Vec<&KeyType>) = KEY_TYPES
            .iter()
            .partition(|key_type| self.has(session, key_type));
        let types = if known.is_empty() { other } else { known };
        let methods: Vec<&str> = types.iter().map(|key_type| key_type.methods).collect();
        // libssh2 ignores the types that it does not support.
        let _ = session.method_pref(MethodType::HostKey, &methods.join(","));
    }

    /// The error for a failed handshake.
    pub(super) fn explain(&self, error: &ssh2::Error, target: &Target) -> ReachError {
        let what = format!("ssh: {}", error.message());
        let explained = ReachError::new(&target.name, Outcome::PeerLost, what);
        if error.code() == NO_COMMON_METHOD && !self.lines.is_empty() {
            explained.next(
                "the server may lack a host key of the type in known_hosts: compare with `ssh-keygen -F`",
            )
        } else {
            explained.next("check that an sshd listens at that address and port")
        }
    }

    /// Checks the host key that the server showed.
    pub(super) fn check(&self, session: &Session, target: &Target) -> Result<(), ReachError> {
        let refuse = |what: String| ReachError::new(&target.name, Outcome::NotRun, what);
        let Some((key, key_type)) = session.host_key() else {
            return Err(refuse("the server showed no host key".into()));
        };
        let type_name = name_of(key_type)
            .ok_or_else(|| refuse("the server's host key is of an unknown type".into()))?;
        let shown = format!("{} {}", type_name, fingerprint(key));
        let is_known = KEY_TYPES
            .iter()
            .find(|known| known.name == type_name)
            .is_some_and(|known| self.has(session, known));
        let hosts = KEY_TYPES
            .iter()
            .find(|known| known.name == type_name)
            .and_then(|known| self.entries_of(session, known));
        match hosts.map(|hosts| hosts.check_port(&self.host, self.port, key)) {
            Some(CheckResult::Match) => Ok(()),
            Some(CheckResult::Mismatch) if is_known => Err(refuse(format!(
                "THE HOST KEY HAS CHANGED. The server shows {shown}, and known_hosts has another key. \
                Either the machine was reinstalled, or the connection is intercepted. Nothing was sent"
            ))
            .next(format!(
                "if you know why the key changed: run `ssh-keygen -R {}`, then log in once with ssh",
                self.named()
            ))),
            _ if target.accept_new_host_key => self.learn(session, type_name, key, target),
            _ => Err(refuse(format!("the server's host key {shown} is not in known_hosts"))
                .next("log in once with ssh, or give --accept-new-host-key")),
        }
    }

    fn named(&self) -> String {
        if self.port == 22 {
            self.host.clone()
        } else {
            format!("'[{}]:{}'", self.host, self.port)
        }
    }

    fn learn(
        &self,
        session: &Session,
        type_name: &str,
        key: &[u8],
        target: &Target,
    ) -> Result<(), ReachError> {
        let refuse = |what: String| ReachError::new(&target.name, Outcome::NotRun, what);
        // A known host that shows a key of another type is not a new host.
        if KEY_TYPES.iter().any(|key_type| self.has(session, key_type)) {
            return Err(refuse(format!(
                "the server shows a {type_name} host key, and known_hosts has only keys of other types"
            )));
        }
        let Some(path) = &self.add_to else {
            return Err(refuse(
                "the ssh configuration names no known_hosts file to add the host key to".into(),
            ));
        };
        let line = format!(
            "{} {type_name} {}\n",
            self.named().replace('\'', ""),
            STANDARD.encode(key)
        );
        if let Some(folder) = path.parent() {
            // If this fails, the write below reports the error.
            let _ = std::fs::create_dir_all(folder);
        }
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| {
                refuse(format!(
                    "cannot add the server's host key to {}: {error}",
                    path.display()
                ))
            })
    }
}

fn name_of(key_type: HostKeyType) -> Option<&'static str> {
    Some(match key_type {
        HostKeyType::Ed25519 => "ssh-ed25519",
        HostKeyType::Ecdsa256 => "ecdsa-sha2-nistp256",
        HostKeyType::Ecdsa384 => "ecdsa-sha2-nistp384",
        HostKeyType::Ecdsa521 => "ecdsa-sha2-nistp521",
        HostKeyType::Rsa => "ssh-rsa",
        _ => return None,
    })
}

/// The SHA-256 fingerprint, as `ssh-keygen -l` prints it.
fn fingerprint(key: &[u8]) -> String {
    use sha2::Digest;
    format!(
        "SHA256:{}",
        STANDARD
            .encode(sha2::Sha256::digest(key))
            .trim_end_matches('=')
    )
}
