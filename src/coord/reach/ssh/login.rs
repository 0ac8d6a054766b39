//! Logs in with keys: those of the ssh agent, then key files. Asks for a passphrase if stdin is a
//! terminal. Passwords are not supported; `--rsh ssh` is for hosts that need one.
#![forbid(unsafe_code)]

use super::super::ReachError;
use super::Target;
use super::config::Settings;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use ssh2::{ErrorCode, Session};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tcpx_words::error::Outcome;

const FILE_ERROR: ErrorCode = ErrorCode::Session(-16);
/// Number of times that a passphrase is asked for.
const ATTEMPTS: usize = 3;
/// Longest time to reach a node and log in, with a user who has to look for a passphrase.
pub(super) const MAX: Duration = Duration::from_secs(300);
/// The terminal's settings before it was asked for a passphrase; `None` if it is not asked.
static BEFORE_PROMPT: Mutex<Option<Termios>> = Mutex::new(None);

/// Tries each key in the order that ssh would.
pub(super) fn log_in(
    session: &Session,
    settings: &Settings,
    target: &Target,
) -> Result<(), ReachError> {
    let mut tried = Vec::new();
    if !settings.only_keys && target.key.is_none() {
        agent(session, &settings.user, &mut tried);
    }
    for key in settings.keys.iter().filter(|key| key.exists()) {
        if session.authenticated() {
            break;
        }
        file(session, &settings.user, key, &mut tried);
    }
    if session.authenticated() {
        return Ok(());
    }
    let reasons = if tried.is_empty() {
        "there is no key to offer".to_owned()
    } else {
        tried.join("; ")
    };
    let what = format!("cannot log in as {}: {reasons}", settings.user);
    let locked = tried.iter().any(|one| one.contains("passphrase"));
    Err(
        ReachError::new(&target.name, Outcome::NotRun, what).next(if locked {
            "unlock the key with ssh-add first, or run tcpxctl from a terminal"
        } else {
            "check that `ssh` logs in with the same user and key, or give --rsh ssh"
        }),
    )
}

fn agent(session: &Session, user: &str, tried: &mut Vec<String>) {
    let Ok(mut agent) = session.agent() else {
        return;
    };
    if agent
        .connect()
        .and_then(|()| agent.list_identities())
        .is_err()
    {
        // Most machines have no ssh agent.
        return;
    }
    for key in agent.identities().unwrap_or_default() {
        match agent.userauth(user, &key) {
            Ok(()) => return,
            Err(_) => tried.push(format!(
                "the server refused the ssh agent's key {}",
                key.comment()
            )),
        }
    }
}

fn file(session: &Session, user: &str, key: &Path, tried: &mut Vec<String>) {
    let shown = key.display();
    match session.userauth_pubkey_file(user, None, key, None) {
        Ok(()) => {}
        Err(error) if error.code() == FILE_ERROR && is_encrypted(key) => {
            if !std::io::stdin().is_terminal() {
                tried.push(format!(
                    "{shown} needs a passphrase, and stdin is not a terminal"
                ));
                return;
            }
            unlock(session, user, key, tried);
        }
        Err(error) if error.code() == FILE_ERROR => {
            tried.push(format!("{shown} is not a valid private key"))
        }
        Err(error) => tried.push(format!("the server refused {shown}: {}", error.message())),
    }
}

fn unlock(session: &Session, user: &str, key: &Path, tried: &mut Vec<String>) {
    for _ in 0..ATTEMPTS {
        let Ok(passphrase) = prompt(key) else { break };
        if session
            .userauth_pubkey_file(user, None, key, Some(&passphrase))
            .is_ok()
        {
            return;
        }
    }
    tried.push(format!("the passphrase of {} was wrong", key.display()));
}

fn prompt(key: &Path) -> std::io::Result<String> {
    let before = File::open(TERMINAL).and_then(|terminal| Ok(tcgetattr(terminal)?));
    *before_prompt() = before.ok();
    let typed = rpassword::prompt_password(format!("Passphrase of {}: ", key.display()));
    *before_prompt() = None;
    typed
}

/// Makes the terminal echo again if a login that was given up still asks for a passphrase.
pub(super) fn end_prompt() {
    if let Some(before) = before_prompt().take()
        && let Ok(terminal) = File::open(TERMINAL)
    {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(terminal, OptionalActions::Now, &before);
        let _ = writeln!(std::io::stderr());
    }
}

fn before_prompt() -> MutexGuard<'static, Option<Termios>> {
    BEFORE_PROMPT.lock().unwrap_or_else(PoisonError::into_inner)
}

const TERMINAL: &str = "/dev/tty";

/// Whether a key file looks encrypted: PEM has a header for it, OpenSSH's format names a cipher.
fn is_encrypted(key: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(key) else {
        return false;
    };
    let body: String = text
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    // In base64: `openssh-key-v1`, then the cipher `none`.
    text.contains("ENCRYPTED")
        || text.contains("OPENSSH") && !body.starts_with("b3BlbnNzaC1rZXktdjEAAAAABG5vbmU")
}
