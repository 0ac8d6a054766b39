//! Is it the host that the user knows?
//!
//! libssh2 compares with the first key it has for a name, of whatever kind, and
//! the server shows the kind that was agreed on. So the kinds that are known for
//! this host are found first, only those are offered, and the key is compared
//! with entries of its own kind.
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

/// A kind of key: its word in known_hosts, the ways to sign with it, and what a
/// session calls it.
struct Kind {
    word: &'static str,
    methods: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        word: "ssh-ed25519",
        methods: "ssh-ed25519",
    },
    Kind {
        word: "ecdsa-sha2-nistp256",
        methods: "ecdsa-sha2-nistp256",
    },
    Kind {
        word: "ecdsa-sha2-nistp384",
        methods: "ecdsa-sha2-nistp384",
    },
    Kind {
        word: "ecdsa-sha2-nistp521",
        methods: "ecdsa-sha2-nistp521",
    },
    Kind {
        word: "ssh-rsa",
        methods: "rsa-sha2-512,rsa-sha2-256",
    },
];
const NO_COMMON_METHOD: ErrorCode = ErrorCode::Session(-5);
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The known hosts files, as lines.
pub(super) struct Known {
    lines: Vec<String>,
    host: String,
    port: u16,
    new_ones_go_to: Option<PathBuf>,
}

impl Known {
    /// Reads the user's and the system's.
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
                    let what = format!("cannot read the known hosts {}: {error}", path.display());
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
            new_ones_go_to: settings.known_hosts.first().cloned(),
        })
    }

    /// Entries of one kind; a line that libssh2 cannot read is none.
    fn of_kind(&self, session: &Session, kind: &Kind) -> Option<KnownHosts> {
        let mut hosts = session.known_hosts().ok()?;
        let is_kind = |line: &&String| {
            line.split_whitespace()
                .take(3)
                .any(|word| word == kind.word)
        };
        for line in self.lines.iter().filter(is_kind) {
            let _ = hosts.read_str(line, KnownHostFileKind::OpenSSH);
        }
        Some(hosts)
    }

    /// Whether there is an entry for the host: any key at all differs from it.
    fn has(&self, session: &Session, kind: &Kind) -> bool {
        let Some(hosts) = self.of_kind(session, kind) else {
            return false;
        };
        matches!(
            hosts.check_port(&self.host, self.port, b"no key"),
            CheckResult::Mismatch
        )
    }

    /// Asks the server for a kind of key that is known here, when one is.
    pub(super) fn prefer(&self, session: &Session) {
        let (known, other): (Vec<&Kind>, Vec<&Kind>) =
            KINDS.iter().partition(|kind| self.has(session, kind));
        let kinds = if known.is_empty() { other } else { known };
        let methods: Vec<&str> = kinds.iter().map(|kind| kind.methods).collect();
        // What this build of libssh2 does not know is left out by libssh2 itself.
        let _ = session.method_pref(MethodType::HostKey, &methods.join(","));
    }

    /// What a handshake that failed says.
    pub(super) fn explain(&self, error: &ssh2::Error, target: &Target) -> ReachError {
        let what = format!("ssh: {}", error.message());
        let explained = ReachError::new(&target.name, Outcome::PeerLost, what);
        if error.code() == NO_COMMON_METHOD && !self.lines.is_empty() {
            explained.next(
                "the server may lack a host key of the type in known_hosts: compare with `ssh-keygen -F`",
            )
        } else {
            explained.next("check that an sshd listens on that port")
        }
    }

    /// Compares the key that the server showed.
    pub(super) fn check(&self, session: &Session, target: &Target) -> Result<(), ReachError> {
        let refuse = |what: String| ReachError::new(&target.name, Outcome::NotRun, what);
        let Some((key, kind)) = session.host_key() else {
            return Err(refuse("the server showed no host key".into()));
        };
        let word =
            word_of(kind).ok_or_else(|| refuse("its host key is of an unknown kind".into()))?;
        let shown = format!("{} {}", word, fingerprint(key));
        let is_known = KINDS
            .iter()
            .find(|known| known.word == word)
            .is_some_and(|known| self.has(session, known));
        let hosts = KINDS
            .iter()
            .find(|known| known.word == word)
            .and_then(|known| self.of_kind(session, known));
        match hosts.map(|hosts| hosts.check_port(&self.host, self.port, key)) {
            Some(CheckResult::Match) => Ok(()),
            Some(CheckResult::Mismatch) if is_known => Err(refuse(format!(
                "THE HOST KEY HAS CHANGED. It shows {shown}, and the known hosts have another. \
                 Either the machine was reinstalled, or the connection is intercepted. Nothing was sent"
            ))
            .next(format!(
                "when you know why it changed: ssh-keygen -R {}, then log in once with ssh",
                self.named()
            ))),
            _ if target.accept_new_host_key => self.learn(session, word, key, target),
            _ => Err(refuse(format!("its host key is not known: {shown}"))
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
        word: &str,
        key: &[u8],
        target: &Target,
    ) -> Result<(), ReachError> {
        let refuse = |what: String| ReachError::new(&target.name, Outcome::NotRun, what);
        // Another kind of key of a host that is known is no new host.
        if KINDS.iter().any(|kind| self.has(session, kind)) {
            return Err(refuse(format!(
                "it shows a {word} host key, and the known hosts have only another kind"
            )));
        }
        let Some(path) = &self.new_ones_go_to else {
            return Err(refuse("there is no known_hosts file to add to".into()));
        };
        let line = format!(
            "{} {word} {}\n",
            self.named().replace('\'', ""),
            STANDARD.encode(key)
        );
        if let Some(folder) = path.parent() {
            // The write below says what is wrong with it.
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
                    "cannot add its host key to {}: {error}",
                    path.display()
                ))
            })
    }
}

fn word_of(kind: HostKeyType) -> Option<&'static str> {
    Some(match kind {
        HostKeyType::Ed25519 => "ssh-ed25519",
        HostKeyType::Ecdsa256 => "ecdsa-sha2-nistp256",
        HostKeyType::Ecdsa384 => "ecdsa-sha2-nistp384",
        HostKeyType::Ecdsa521 => "ecdsa-sha2-nistp521",
        HostKeyType::Rsa => "ssh-rsa",
        _ => return None,
    })
}

/// As `ssh-keygen -l` prints it.
fn fingerprint(key: &[u8]) -> String {
    use sha2::Digest;
    format!(
        "SHA256:{}",
        STANDARD
            .encode(sha2::Sha256::digest(key))
            .trim_end_matches('=')
    )
}
