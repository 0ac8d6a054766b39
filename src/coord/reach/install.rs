//! Copies the program to a node and starts it as the agent.
//!
//! A single shell line does both, because a second command over ssh costs 80 ms: it looks for this
//! build in the user's cache on the node, reads it from stdin if it is missing, checks it, and
//! becomes the agent. Its answers are lines that begin with `tcpxctl-boot`; lines before the first
//! answer are a banner.
//!
//! The cache is `$XDG_CACHE_HOME/tcpxctl` or `~/.cache/tcpxctl`, one file per build, of which the
//! newest few are kept. It is used only if the user owns the folder and no other user can write to
//! it. The hash is taken of the opened file, and that open file is executed.
#![forbid(unsafe_code)]

use super::{AgentLink, ReachError, Until, line};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tcpx_words::error::Outcome;
use tcpx_words::units::shell_word;

/// Longest silence of a node while the program gets there.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Text of a node that is kept for the error.
const SAID_MAX: usize = 20;
/// For the last lines of a program that has just ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
const PIECE: usize = 256 * 1024;
const WORD: &str = "tcpxctl-boot";

/// No single quotes, no `!` and no line ends: it is an argument of whatever login
/// shell there is. `@` words are filled in by [`Boot::line`].
const LINE: &str = concat!(
    "umask 077; say() { echo tcpxctl-boot \"$@\"; }; fail() { say failed \"$@\"; exit 97; }; ",
    "[ \"$(uname -s)\" = Linux ] || fail system $(uname -s); ",
    "[ \"$(uname -m)\" = @ARCH ] || fail arch $(uname -m); ",
    "b=${XDG_CACHE_HOME:-${HOME:-}/.cache}; d=$b/tcpxctl; f=$d/agent-@VERSION-@SHORT; ",
    "e=$(mkdir -p \"$d\" 2>&1) || fail cache $e; [ -L \"$d\" ] && fail cache \"$d\" is a link; ",
    "[ -O \"$d\" ] || fail cache \"$d\" belongs to someone else; ",
    "case $(ls -ld \"$d\") in ?????w*|????????w*) fail cache others can write to \"$d\";; esac; ",
    "good() { [ -L \"$f\" ] && return 1; [ -f \"$f\" ] && [ -O \"$f\" ] || return 1; exec 3<\"$f\"; ",
    "h=$(sha256sum <&3) || fail hash no sha256sum; [ \"${h%% *}\" = @HASH ]; }; ",
    "if good; then say have; else say need; ",
    "t=$(mktemp \"$d/.up-XXXXXX\" 2>&1) || fail write $t; away() { rm -f \"$t\"; }; trap away 0; ",
    "e=$(head -c @SIZE 2>&1 >\"$t\") || fail write $e; ",
    "[ $(wc -c <\"$t\") -eq @SIZE ] || fail short; ",
    "e=$(chmod 700 \"$t\" 2>&1 && mv -f \"$t\" \"$f\" 2>&1) || fail write $e; trap - 0; ",
    "good || fail hash the copy differs; ",
    "ls -t \"$d\"/agent-* | tail -n +5 | while read -r o; do rm -f \"$o\"; done; ",
    "[ -x \"$f\" ] || fail noexec \"$d\"; e=$(\"$f\" --version 2>&1) || fail start $e; say done; fi; ",
    "[ -x \"$f\" ] || fail noexec \"$d\"; TCPXCTL_BOOT=1 exec /proc/self/fd/3 agent",
);

/// The same for a program that is there.
const AT_PATH: &str = concat!(
    "f=@PATH; [ -x \"$f\" ] || { echo tcpxctl-boot failed missing \"$f\"; exit 97; }; ",
    "echo tcpxctl-boot have; exec \"$f\" agent",
);

/// Which program becomes the agent.
#[derive(Clone)]
pub enum Boot {
    /// A copy of this one.
    Copy(Arc<Program>),
    /// One that is there already.
    AtPath(String),
}

/// This program's file.
pub struct Program {
    file: File,
    size: u64,
    sha256: String,
}

impl Program {
    /// Opens and hashes it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (sha256, size) = tcpx_words::units::sha256(&mut file)?;
        Ok(Self { file, size, sha256 })
    }

    /// Sends it whole.
    fn send(&self, to: &mut dyn Write, progress: &mut dyn FnMut(u64, u64)) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let (mut piece, mut sent) = (vec![0; PIECE], 0);
        while sent < self.size {
            let length = self.file.read_at(&mut piece, sent)?;
            if length == 0 {
                return Err(io::Error::other("this program's own file became shorter"));
            }
            to.write_all(&piece[..length])?;
            sent += length as u64;
            progress(sent, self.size);
        }
        to.flush()
    }
}

impl Boot {
    /// This program, copied.
    ///
    /// # Errors
    /// Its own file cannot be read.
    pub fn copy() -> io::Result<Self> {
        Program::open(Path::new("/proc/self/exe")).map(|program| Self::Copy(program.into()))
    }

    /// The program at this path of the node.
    pub fn at_path(path: &str) -> Self {
        Self::AtPath(path.to_owned())
    }

    /// The shell line that becomes the agent.
    pub fn line(&self) -> String {
        match self {
            Self::AtPath(path) => AT_PATH.replace("@PATH", &shell_word(path)),
            Self::Copy(program) => LINE
                .replace("@ARCH", std::env::consts::ARCH)
                .replace("@VERSION", env!("CARGO_PKG_VERSION"))
                .replace("@SHORT", &program.sha256[..16])
                .replace("@HASH", &program.sha256)
                .replace("@SIZE", &program.size.to_string()),
        }
    }
}

/// Takes the dialogue with [`Boot::line`] to where the agent speaks.
///
/// # Errors
/// In words that name the node and what it said.
pub fn bring(
    node: &str,
    mut link: AgentLink,
    boot: &Boot,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<AgentLink, ReachError> {
    let (to_answers, answers) = mpsc::channel();
    let (to_caller, from_agent) = mpsc::channel();
    let mut from = link.from_agent;
    std::thread::spawn(move || {
        while read_answer(&mut from, &to_answers) {}
        // Gone only when the caller has given up.
        let _ = to_caller.send(from);
    });
    let mut dialogue = Dialogue {
        node,
        answers,
        beside: link.beside,
        said: Vec::new(),
    };
    if dialogue.answer()? == "need"
        && let Boot::Copy(program) = boot
    {
        if let Err(error) = program.send(&mut link.to_agent, progress) {
            // Its own last words say more than a broken pipe.
            return Err(dialogue
                .answer()
                .err()
                .unwrap_or_else(|| dialogue.lost(&error.to_string())));
        }
        dialogue.answer()?;
    }
    let from_agent = from_agent
        .recv_timeout(ANSWER_MAX)
        .map_err(|_| dialogue.lost("it stopped answering"))?;
    Ok(AgentLink {
        from_agent,
        beside: dialogue.beside,
        ..link
    })
}

/// Passes lines on up to the next answer; whether another follows it.
fn read_answer(from: &mut dyn Read, to: &mpsc::Sender<String>) -> bool {
    loop {
        let Some(line) = line(from) else { return false };
        let (is_answer, is_last) = (line.starts_with(WORD), line != format!("{WORD} need"));
        if to.send(line).is_err() || is_answer {
            return is_answer && !is_last;
        }
    }
}

/// What a node answers, and everything else it says meanwhile.
struct Dialogue<'a> {
    node: &'a str,
    answers: mpsc::Receiver<String>,
    beside: Option<mpsc::Receiver<String>>,
    said: Vec<String>,
}

impl Dialogue<'_> {
    fn answer(&mut self) -> Result<String, ReachError> {
        let until = Until::after(ANSWER_MAX);
        loop {
            match self.answers.recv_timeout(until.left()) {
                Ok(line) => match line.strip_prefix(WORD).map(str::trim) {
                    Some(answer) => match answer.strip_prefix("failed ") {
                        Some(why) => return Err(self.refused(why)),
                        None => return Ok(answer.to_owned()),
                    },
                    None if self.said.len() < SAID_MAX => self.said.push(line),
                    None => {}
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(self.lost(&format!("no answer within {} s", ANSWER_MAX.as_secs())));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.lost("it ended before it answered"));
                }
            }
        }
    }

    fn lost(&mut self, what: &str) -> ReachError {
        let beside = self.beside.take();
        let last_words = Until::after(LAST_WORDS);
        while let Some(Ok(line)) = beside
            .as_ref()
            .map(|lines| lines.recv_timeout(last_words.left()))
        {
            self.said.push(line);
        }
        let said = match self.said.iter().rev().find(|line| !line.is_empty()) {
            Some(last) if last.contains("echo tcpxctl-boot") => {
                format!("{what}; it printed the command that it was given instead of running it")
            }
            Some(last) => format!("{what}; it printed: {last}"),
            None => what.to_owned(),
        };
        ReachError::new(
            self.node,
            Outcome::PeerLost,
            format!("the agent could not be started: {said}"),
        )
        .next("check that a plain command reaches that node the same way")
    }

    /// What the line's own refusals mean.
    fn refused(&self, why: &str) -> ReachError {
        let (word, rest) = why.split_once(' ').unwrap_or((why, ""));
        let (what, next) = match word {
            "system" => (format!("it runs {rest}, not Linux"), "use a Linux node"),
            "arch" => (
                format!("it is {rest}, this program is {}", std::env::consts::ARCH),
                "install a build for it there and name it with --remote-bin",
            ),
            "cache" => (
                format!("its cache folder cannot be used: {rest}"),
                "set XDG_CACHE_HOME there to a folder of your own, or install tcpxctl there and give --remote-bin",
            ),
            "write" => (
                format!("the program could not be written there: {rest}"),
                "make room, or give --remote-bin",
            ),
            "short" => (
                "the copy there is shorter than what was sent".to_owned(),
                "make room, or give --remote-bin",
            ),
            "hash" => (
                format!("the copy there cannot be trusted: {rest}"),
                "try again, or give --remote-bin",
            ),
            "missing" => (
                format!("no program at {rest}"),
                "install tcpxctl there, or omit --remote-bin to send this one",
            ),
            "noexec" => (
                format!("programs cannot be run from {rest}: its mount is noexec"),
                "set XDG_CACHE_HOME there to another file system, or give --remote-bin",
            ),
            "start" => (
                format!("the program does not start there: {rest}"),
                "build it on the older system, or install one and give --remote-bin",
            ),
            _ => (why.to_owned(), "give --remote-bin"),
        };
        ReachError::new(self.node, Outcome::NotRun, what).next(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::child::started;
    use std::process::{Command, Stdio};

    /// The line, run by a shell of this machine with a home of its own.
    fn boot(home: &Path, boot: &Boot, shell: &str, before: &str) -> Result<String, String> {
        let mut command = Command::new(shell);
        command
            .arg("-c")
            .arg(format!("{before}sh -c {}", shell_word(&boot.line())));
        command
            .env("HOME", home)
            .env_remove("XDG_CACHE_HOME")
            .stderr(Stdio::piped());
        let link = started(command).expect("a shell");
        let mut link =
            bring("node1", link, boot, &mut |_, _| {}).map_err(|error| error.to_string())?;
        let mut text = String::new();
        link.from_agent.read_to_string(&mut text).expect("it ends");
        link.hold.finish(Duration::from_secs(5));
        Ok(text)
    }

    /// A program of another name that echoes how it was called.
    fn program(folder: &Path, text: &str) -> Boot {
        let path = folder.join("program");
        std::fs::write(&path, text).expect("written");
        Boot::Copy(Program::open(&path).expect("opened").into())
    }

    const ECHO: &str = "#!/bin/sh\necho run \"$@\"\n";

    #[test]
    fn it_travels_once_and_is_found_again() {
        let home = tempfile::tempdir().expect("a folder");
        let program = program(home.path(), ECHO);
        for _ in 0..2 {
            let said = boot(home.path(), &program, "sh", "echo Welcome; ").expect("it starts");
            assert_eq!(said, "run agent\n");
        }
        let cache: Vec<_> = std::fs::read_dir(home.path().join(".cache/tcpxctl"))
            .expect("a cache")
            .collect();
        assert_eq!(cache.len(), 1, "{cache:?}");
    }

    #[test]
    fn a_copy_that_was_changed_is_replaced() {
        let home = tempfile::tempdir().expect("a folder");
        let program = program(home.path(), ECHO);
        boot(home.path(), &program, "sh", "").expect("it starts");
        let cached = std::fs::read_dir(home.path().join(".cache/tcpxctl"))
            .expect("a cache")
            .next();
        let cached = cached.expect("a file").expect("readable").path();
        std::fs::write(&cached, "#!/bin/sh\necho evil\n").expect("written");
        assert_eq!(
            boot(home.path(), &program, "sh", "").as_deref(),
            Ok("run agent\n")
        );
    }

    #[test]
    fn a_way_that_runs_nothing_is_told_from_a_node_that_fails() {
        let home = tempfile::tempdir().expect("a folder");
        let said =
            boot(home.path(), &program(home.path(), ECHO), "sh", "echo ").expect_err("no agent");
        assert!(
            said.contains("instead of running it") && said.len() < 300,
            "{said}"
        );
    }

    #[test]
    fn old_builds_are_pruned() {
        let home = tempfile::tempdir().expect("a folder");
        for build in 0..7 {
            let program = program(home.path(), &format!("{ECHO}# {build}\n"));
            boot(home.path(), &program, "sh", "").expect("it starts");
        }
        assert_eq!(
            std::fs::read_dir(home.path().join(".cache/tcpxctl"))
                .expect("a cache")
                .count(),
            4
        );
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        type Spoil<'a> = &'a dyn Fn(&Path);
        let cases: [(&str, Spoil<'_>); 3] = [
            ("is a link", &|cache| {
                symlink("/tmp", cache).expect("a link")
            }),
            ("others can write", &|cache| {
                std::fs::create_dir(cache).expect("a folder");
                std::fs::set_permissions(cache, PermissionsExt::from_mode(0o777)).expect("a mode");
            }),
            ("cannot be used", &|cache| {
                std::fs::write(cache, "").expect("a file")
            }),
        ];
        for (words, spoil) in cases {
            let home = tempfile::tempdir().expect("a folder");
            std::fs::create_dir(home.path().join(".cache")).expect("a folder");
            spoil(&home.path().join(".cache/tcpxctl"));
            let said = boot(home.path(), &program(home.path(), ECHO), "sh", "");
            assert!(
                said.as_ref().is_err_and(|error| error.contains(words)),
                "{words}: {said:?}"
            );
        }
    }

    #[test]
    fn a_program_that_does_not_start_and_a_shell_that_is_none_say_so() {
        let home = tempfile::tempdir().expect("a folder");
        let old = program(
            home.path(),
            "#!/bin/sh\necho version GLIBC_2.99 not found >&2; exit 1\n",
        );
        assert!(boot(home.path(), &old, "sh", "").is_err_and(|error| error.contains("GLIBC_2.99")));
        let gone = program(home.path(), ECHO);
        let said = boot(
            home.path(),
            &gone,
            "sh",
            "echo this account is closed; exit 1; ",
        );
        assert!(said.is_err_and(|error| error.contains("this account is closed")));
    }

    #[test]
    fn a_program_that_is_there_is_used_as_it_is() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("it's here");
        program(home.path(), ECHO);
        std::fs::rename(home.path().join("program"), &path).expect("renamed");
        let there = Boot::at_path(&path.to_string_lossy());
        assert!(
            boot(home.path(), &there, "sh", "").is_err_and(|error| error.contains("no program at"))
        );
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("a mode");
        assert_eq!(
            boot(home.path(), &there, "sh", "echo hello; ").as_deref(),
            Ok("run agent\n")
        );
    }

    #[test]
    fn the_line_suits_any_login_shell() {
        assert!(!LINE.contains(['\'', '!', '\n', '\\']));
    }

    #[test]
    fn a_full_disk_is_named() {
        // Writes to a file of this shell end at 1 KiB.
        let home = tempfile::tempdir().expect("a folder");
        let big = program(home.path(), &format!("{ECHO}# {}\n", "x".repeat(300_000)));
        let said = boot(home.path(), &big, "sh", "trap '' XFSZ; ulimit -f 1; ");
        assert!(
            said.as_ref()
                .is_err_and(|error| error.contains("could not be written")),
            "{said:?}"
        );
    }
}
