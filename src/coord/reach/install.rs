//! Copies tcpxctl to a node and starts it as the agent.
//!
//! A single shell line does both, because a second command over ssh costs 80 ms. It looks for this
//! build in the user's cache on the node, reads tcpxctl from stdin if the cache lacks it, checks
//! the copy, and becomes the agent. Its answers are lines that begin with `tcpxctl-boot`; lines
//! before the first answer are a banner.
//!
//! The cache is `$XDG_CACHE_HOME/tcpxctl` or `~/.cache/tcpxctl`, one file per build, of which the
//! newest few are kept. It is used only if the user owns the folder and no other user can write to
//! it. The hash is taken of the opened file, and that open file is executed.
#![forbid(unsafe_code)]

use super::{AgentLink, Hold, Opening, ReachError, Unheard, Until, hear, line};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tcpx_words::error::Outcome;
use tcpx_words::units::{ByteCount, shell_word};

/// Longest wait for an answer of the shell line.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Output lines of a node that are kept for the error message.
const OUTPUT_LINES_MAX: usize = 20;
/// Longest wait for the last output lines of a command that has ended.
const LAST_OUTPUT_MAX: Duration = Duration::from_millis(500);
/// Bytes of tcpxctl sent at a time.
const PIECE_BYTES: usize = 64 * 1024;
/// Longest wait for a node to take the next piece of tcpxctl.
const PIECE_MAX: Duration = Duration::from_secs(20);
pub(super) const ANSWER_PREFIX: &str = "tcpxctl-boot";
/// What only the shell line itself has.
const SHELL_LINE: &str = "echo tcpxctl-boot";

/// What a shell line does first: it checks the system and the cache, and defines `good`, which opens
/// the cached file `$f` as descriptor 3 and checks that it is this program.
macro_rules! cached {
    () => {
        concat!(
            "[ \"$(uname -s)\" = Linux ] || fail system $(uname -s); ",
            "[ \"$(uname -m)\" = @ARCH ] || fail arch $(uname -m); ",
            "b=${XDG_CACHE_HOME:-${HOME:-}/.cache}; d=$b/tcpxctl; f=$d/agent-@VERSION-@SHORT; ",
            "e=$(mkdir -p \"$d\" 2>&1) || fail cache $e; [ -L \"$d\" ] && fail cache \"$d\" is a link; ",
            "[ -O \"$d\" ] || fail cache \"$d\" belongs to another user; ",
            "case $(ls -ld \"$d\") in ?????w*|????????w*) fail cache other users can write to \"$d\";; esac; ",
            "good() { [ -L \"$f\" ] && return 1; [ -f \"$f\" ] && [ -O \"$f\" ] || return 1; exec 3<\"$f\"; ",
            "h=$(sha256sum <&3) || fail hash no sha256sum; [ \"${h%% *}\" = @HASH ]; }; ",
        )
    };
}

/// `fail` removes the part of a copy before it answers, because writing to a coordinator that is
/// gone ends the shell without its trap. A copy that does not grow for 25 s is given up, so that nothing is left on a node whose
/// connection went dead; files that a crash of the node left are removed by the next copy.
///
/// Contains no single quote, backslash, `!` or newline, so that any login shell passes it on
/// unchanged as a quoted argument. [`Boot::line`] replaces the `@` words.
const LINE: &str = concat!(
    "umask 077; say() { echo tcpxctl-boot \"$@\"; }; t=; away() { rm -f \"$t\" \"$t.p\"; }; ",
    "fail() { [ -n \"$t\" ] && away; say failed \"$@\"; exit 97; }; ",
    cached!(),
    "u=$d/.up-@SHORT; [ -f \"$u\" ] && [ -O \"$u\" ] && chmod 700 \"$u\" && mv -f \"$u\" \"$f\"; ",
    "if good; then say have; else say need; ",
    "find \"$d\" -name \".up-*\" -mmin +60 -exec rm -f {} + 2>/dev/null; ",
    "e=$(mktemp \"$d/.up-XXXXXX\" 2>&1) || fail write $e; t=$e; trap away 0; ",
    "exec 4<&0 5>\"$t.p\"; still() { n=0; s=; while sleep 1; g=$(cat \"$t.p\") && h=$g; kill -0 $h; do ",
    "z=$(wc -c <\"$t\"); [ \"$z\" = \"$s\" ] && n=$((n+1)) || n=0; s=$z; [ $n -lt 25 ] || kill $h; done; }; ",
    "(exec >/dev/null 2>&1 4<&- 5>&-; still &); ",
    "e=$(head -c @SIZE <&4 2>&1 >\"$t\" & jobs -p >&5; wait); exec 4<&- 5>&-; rm -f \"$t.p\"; ",
    "[ $(wc -c <\"$t\") -eq @SIZE ] || { [ -n \"$e\" ] && fail write $e; fail short; }; ",
    "e=$(chmod 700 \"$t\" 2>&1 && mv -f \"$t\" \"$f\" 2>&1) || fail write $e; trap - 0; ",
    "good || fail hash the copy differs; ",
    "ls -t \"$d\"/agent-* | tail -n +5 | while read -r o; do rm -f \"$o\"; done; ",
    "[ -x \"$f\" ] || fail noexec \"$d\"; e=$(\"$f\" --version 2>&1) || fail start $e; say done; fi; ",
    "[ -x \"$f\" ] || fail noexec \"$d\"; TCPXCTL_BOOT=1 exec /proc/self/fd/3 agent",
);

/// The shell line of a program that starts one task per node: becomes the agent if the program is on the
/// node, at this program's own path or in the cache, and else says that the node needs it. Its answers
/// begin with the node's name. The path is not checked for its owner: the user runs it here.
const TASK: &str = concat!(
    "n=@NODE; umask 077; say() { echo tcpxctl-boot \"$n\" \"$@\"; }; fail() { say failed \"$@\"; exit 0; }; ",
    "h=; [ -f @SELF ] && { exec 3<@SELF; h=$(sha256sum <&3); }; [ \"${h%% *}\" = @HASH ] || { ",
    cached!(),
    "good || { say need; exit 0; }; [ -x \"$f\" ] || fail noexec \"$d\"; }; ",
    "TCPXCTL_BOOT=1 exec /proc/self/fd/3 agent @CALL --name \"$n\"",
);

/// [`TASK`] for an installed tcpxctl.
const TASK_AT_PATH: &str = concat!(
    "n=@NODE; f=@PATH; [ -x \"$f\" ] || { echo tcpxctl-boot \"$n\" failed missing \"$f\"; exit 0; }; ",
    "exec \"$f\" agent @CALL --name \"$n\"",
);

/// The shell line that starts an installed tcpxctl as the agent.
const AT_PATH: &str = concat!(
    "f=@PATH; [ -x \"$f\" ] || { echo tcpxctl-boot failed missing \"$f\"; exit 97; }; ",
    "echo tcpxctl-boot have; exec \"$f\" agent",
);

/// The executable that becomes the agent.
#[derive(Clone)]
pub enum Boot {
    /// A copy of this executable.
    Copy(Arc<Program>),
    /// An executable at this path on the node.
    AtPath(String),
}

/// The executable file of this process.
pub struct Program {
    file: File,
    size: u64,
    sha256: String,
}

impl Program {
    /// Opens and hashes an executable.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (sha256, size) = tcpx_words::units::sha256(&mut file)?;
        Ok(Self { file, size, sha256 })
    }

    /// Sends the whole file.
    fn send(&self, to: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let (mut piece, mut sent) = (vec![0; PIECE_BYTES], 0);
        while sent < self.size {
            let length = self.file.read_at(&mut piece, sent)?;
            if length == 0 {
                return Err(io::Error::other(
                    "the executable file of this tcpxctl became shorter while it was being sent",
                ));
            }
            to.write_all(&piece[..length])?;
            sent += length as u64;
            progress(sent);
        }
        to.flush()
    }
}

impl Boot {
    /// Copies this executable to the node.
    ///
    /// # Errors
    /// The executable file of this process cannot be read.
    pub fn copy() -> io::Result<Self> {
        Program::open(Path::new("/proc/self/exe")).map(|program| Self::Copy(program.into()))
    }

    /// Starts the executable at `path` on the node.
    pub fn at_path(path: &str) -> Self {
        Self::AtPath(path.to_owned())
    }

    /// The shell line that becomes the agent.
    pub fn line(&self) -> String {
        self.filled(LINE, AT_PATH)
    }

    /// The shell line of a task that becomes an agent which calls the coordinator, or says why not.
    /// `node` is the shell word of the node's name, and `call` the arguments of the agent.
    pub(super) fn task_line(&self, node: &str, call: &str) -> String {
        let own = std::env::current_exe().unwrap_or_default();
        let line = self.filled(TASK, TASK_AT_PATH);
        line.replace("@SELF", &shell_word(&own.to_string_lossy()))
            .replace("@NODE", node)
            .replace("@CALL", call)
    }

    /// Where [`Boot::line`] finds a copy that a launcher has brought, if this node's cache folder is that
    /// of every node.
    pub(super) fn brought(&self) -> Option<std::path::PathBuf> {
        let Self::Copy(program) = self else {
            return None;
        };
        let cache = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
        let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache"));
        let folder = cache.or_else(home)?.join("tcpxctl");
        Some(folder.join(format!(".up-{}", &program.sha256[..16])))
    }

    fn filled(&self, copy: &str, at_path: &str) -> String {
        match self {
            Self::AtPath(path) => at_path.replace("@PATH", &shell_word(path)),
            Self::Copy(program) => copy
                .replace("@ARCH", std::env::consts::ARCH)
                .replace("@VERSION", env!("CARGO_PKG_VERSION"))
                .replace("@SHORT", &program.sha256[..16])
                .replace("@HASH", &program.sha256)
                .replace("@SIZE", &program.size.to_string()),
        }
    }
}

/// Carries out the dialogue with [`Boot::line`] until the agent has started.
///
/// # Errors
/// The agent did not start, or the user interrupted; the error names the node and quotes its
/// output.
pub fn bring(
    node: &str,
    link: AgentLink,
    boot: &Boot,
    opening: &mut Opening<'_>,
) -> Result<AgentLink, ReachError> {
    let there = link.addresses.there;
    bring_within(PIECE_MAX, node, link, boot, opening).map_err(|error| error.over(there))
}

fn bring_within(
    piece_max: Duration,
    node: &str,
    mut link: AgentLink,
    boot: &Boot,
    opening: &mut Opening<'_>,
) -> Result<AgentLink, ReachError> {
    let (to_answers, answers) = mpsc::channel();
    let (to_caller, from_agent) = mpsc::channel();
    let mut from = link.from_agent;
    std::thread::spawn(move || {
        while read_answer(&mut from, &to_answers) {}
        // Fails only if the caller has given up.
        let _ = to_caller.send(from);
    });
    let mut dialogue = Dialogue {
        node,
        answers,
        stderr: link.stderr,
        interrupted: opening.interrupted,
        output: Vec::new(),
    };
    if dialogue.answer()? == "need"
        && let Boot::Copy(program) = boot
    {
        link.to_agent =
            dialogue.upload(program, link.to_agent, &mut *link.hold, piece_max, opening)?;
        dialogue.answer()?;
    }
    let from_agent = hear(&from_agent, Until::after(ANSWER_MAX), opening.interrupted)
        .map_err(|why| dialogue.unheard(why, "the node stopped answering"))?;
    Ok(AgentLink {
        from_agent,
        stderr: dialogue.stderr,
        ..link
    })
}

/// Passes on lines up to the next answer. Returns whether another answer follows.
fn read_answer(from: &mut dyn Read, to: &mpsc::Sender<String>) -> bool {
    loop {
        let Some(line) = line(from) else { return false };
        let (is_answer, is_last) = (
            line.starts_with(ANSWER_PREFIX),
            line != format!("{ANSWER_PREFIX} need"),
        );
        if to.send(line).is_err() || is_answer {
            return is_answer && !is_last;
        }
    }
}

/// The answers of the shell line on a node, and its other output.
struct Dialogue<'a> {
    node: &'a str,
    answers: mpsc::Receiver<String>,
    stderr: Option<mpsc::Receiver<String>>,
    interrupted: &'a AtomicBool,
    output: Vec<String>,
}

/// What the thread of an upload tells.
enum Upload {
    /// So many bytes were taken.
    Sent(u64),
    /// Every byte was taken; the stream is returned.
    Done(Box<dyn Write + Send>),
    Failed(io::Error),
}

impl Dialogue<'_> {
    /// Sends the program in a thread, because a write to a node that takes no bytes blocks
    /// without end. If the node takes none for `piece_max` or the user interrupts, `hold` ends the
    /// transport, and with it the thread.
    fn upload(
        &mut self,
        program: &Arc<Program>,
        mut to: Box<dyn Write + Send>,
        hold: &mut dyn Hold,
        piece_max: Duration,
        opening: &mut Opening<'_>,
    ) -> Result<Box<dyn Write + Send>, ReachError> {
        let (to_caller, news) = mpsc::channel();
        let (size, program) = (program.size, Arc::clone(program));
        std::thread::spawn(move || {
            // Each fails only if the caller has given up.
            let mut sent = |sent| drop(to_caller.send(Upload::Sent(sent)));
            let _ = match program.send(&mut to, &mut sent) {
                Ok(()) => to_caller.send(Upload::Done(to)),
                Err(error) => to_caller.send(Upload::Failed(error)),
            };
        });
        // Handed to the transport, which holds some of it back: what the node has is not known.
        let mut sent_so_far = 0;
        loop {
            match hear(&news, Until::after(piece_max), self.interrupted) {
                Ok(Upload::Sent(sent)) => {
                    sent_so_far = sent;
                    (opening.progress)(sent, size);
                }
                Ok(Upload::Done(to)) => return Ok(to),
                Ok(Upload::Failed(error)) => {
                    // The node's last answer has the reason for the broken pipe.
                    let said = self.answer().err();
                    return Err(said.unwrap_or_else(|| self.lost(&error.to_string())));
                }
                Err(why) => {
                    hold.finish(Duration::ZERO);
                    let what = format!(
                        "{} of {} of tcpxctl were sent, and then the node took nothing for {} s",
                        ByteCount(sent_so_far).about(),
                        ByteCount(size).about(),
                        piece_max.as_secs()
                    );
                    return Err(self.unheard(why, &what));
                }
            }
        }
    }

    fn answer(&mut self) -> Result<String, ReachError> {
        let until = Until::after(ANSWER_MAX);
        loop {
            match hear(&self.answers, until, self.interrupted) {
                Ok(line) => match line.strip_prefix(ANSWER_PREFIX).map(str::trim) {
                    Some(answer) => match answer.strip_prefix("failed ") {
                        Some(why) => return Err(refused(self.node, why)),
                        None => return Ok(answer.to_owned()),
                    },
                    None if self.output.len() < OUTPUT_LINES_MAX => self.output.push(line),
                    None => {}
                },
                Err(Unheard::Ended) => {
                    return Err(self.lost("the command ended without an answer"));
                }
                Err(why) => {
                    let what = format!("no answer within {} s", ANSWER_MAX.as_secs());
                    return Err(self.unheard(why, &what));
                }
            }
        }
    }

    fn unheard(&mut self, why: Unheard, what: &str) -> ReachError {
        match why {
            Unheard::Interrupted => ReachError::interrupted(self.node),
            Unheard::Late | Unheard::Ended => self.lost(what),
        }
    }

    fn lost(&mut self, what: &str) -> ReachError {
        let stderr = self.stderr.take();
        let until = Until::after(LAST_OUTPUT_MAX);
        while let Some(Ok(line)) = stderr
            .as_ref()
            .map(|lines| lines.recv_timeout(until.left()))
        {
            self.output.push(quoted(&line));
        }
        let why = match self.output.iter().rev().find(|line| !line.is_empty()) {
            Some(last) if last.contains(SHELL_LINE) => {
                format!("{what}; the node printed the command instead of running it")
            }
            Some(last) => format!("{what}; the last line of output is: {last}"),
            None => what.to_owned(),
        };
        ReachError::new(
            self.node,
            Outcome::PeerLost,
            format!("cannot start the agent: {why}"),
        )
        .next("check that the same transport can run another command on that node, such as `true`")
    }
}

/// A line of stderr, with a short form for the shell line in it: a program that took all of that as its own name quotes
/// it before its error, which counts.
fn quoted(line: &str) -> String {
    let begin = line.find("umask 077").or_else(|| line.find("sh -c"));
    let ends = [" agent'", " agent\"", " agent"];
    let end = ends
        .iter()
        .find_map(|end| Some(line.rfind(end)? + end.len()));
    match (begin, end) {
        (Some(begin), Some(end)) if line[begin..end.max(begin)].contains(SHELL_LINE) => {
            format!("{}\u{2026}{}", &line[..begin], &line[end..])
        }
        _ => line.to_owned(),
    }
}

/// The error for a `failed` answer of the shell line.
pub(super) fn refused(node: &str, why: &str) -> ReachError {
    let (word, rest) = why.split_once(' ').unwrap_or((why, ""));
    let (what, next) = match word {
        "system" => (
            format!("the node runs {rest}, not Linux"),
            "use a Linux node",
        ),
        "arch" => (
            format!(
                "the node is {rest}, this tcpxctl is built for {}",
                std::env::consts::ARCH
            ),
            "install tcpxctl for that architecture on the node and give its path with --remote-bin",
        ),
        "cache" => (
            format!("the cache folder on the node cannot be used: {rest}"),
            "set XDG_CACHE_HOME on the node to a folder that only you can write to, or install tcpxctl there and give --remote-bin",
        ),
        "write" => (
            format!("cannot write tcpxctl on the node: {rest}"),
            "free disk space or make the cache folder writable, or install tcpxctl there and give --remote-bin",
        ),
        "short" => (
            "the copy of tcpxctl on the node is incomplete".to_owned(),
            "free disk space, or install tcpxctl there and give --remote-bin",
        ),
        "hash" => (
            format!("cannot verify the copy of tcpxctl on the node: {rest}"),
            "try again, or install tcpxctl there and give --remote-bin",
        ),
        "missing" => (
            format!("no executable file at {rest}"),
            "install tcpxctl there, or omit --remote-bin to copy this tcpxctl",
        ),
        "noexec" => (
            format!("cannot run tcpxctl from {rest}: the file system is mounted noexec"),
            "set XDG_CACHE_HOME on the node to another file system, or install tcpxctl there and give --remote-bin",
        ),
        "start" => (
            format!("tcpxctl does not start on the node: {rest}"),
            "build tcpxctl on a system as old as the node, or install tcpxctl there and give --remote-bin",
        ),
        _ => (
            why.to_owned(),
            "install tcpxctl on the node and give --remote-bin",
        ),
    };
    ReachError::new(node, Outcome::NotRun, what).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::child::started;
    use std::process::{Command, Stdio};

    /// Runs the shell line on this machine with `home` as the home directory.
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
        let mut opening = Opening {
            interrupted: &AtomicBool::new(false),
            progress: &mut |_, _| {},
        };
        let mut link =
            bring("node1", link, boot, &mut opening).map_err(|error| error.to_string())?;
        let mut text = String::new();
        link.from_agent.read_to_string(&mut text).expect("it ends");
        link.hold.finish(Duration::from_secs(5));
        Ok(text)
    }

    /// An executable with this content.
    fn program(folder: &Path, text: &str) -> Boot {
        let path = folder.join("program");
        std::fs::write(&path, text).expect("written");
        Boot::Copy(Program::open(&path).expect("opened").into())
    }

    const ECHO: &str = "#!/bin/sh\necho run \"$@\"\n";

    #[test]
    fn the_program_is_copied_once_and_then_found_in_the_cache() {
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
    fn a_task_says_that_its_node_needs_the_program_and_then_runs_the_cached_one() {
        let home = tempfile::tempdir().expect("a folder");
        let program = program(home.path(), ECHO);
        let task = |boot: &Boot| {
            let line = boot.task_line("\"$NODE\"", "--call 10.0.1.25:7");
            let mut command = Command::new("sh");
            command.args(["-c", &line]).env("NODE", "a3-7");
            command
                .env("HOME", home.path())
                .env_remove("XDG_CACHE_HOME");
            let ended = command.output().expect("a shell");
            String::from_utf8(ended.stdout).expect("text")
        };
        assert_eq!(task(&program), "tcpxctl-boot a3-7 need\n");
        boot(home.path(), &program, "sh", "").expect("it starts");
        let run = "run agent --call 10.0.1.25:7 --name a3-7\n";
        assert_eq!(task(&program), run);
        let installed = Boot::at_path("/no/such/tcpxctl");
        let missing = "tcpxctl-boot a3-7 failed missing /no/such/tcpxctl\n";
        assert_eq!(task(&installed), missing);
        let spoiled = home.path().join(".cache/tcpxctl");
        std::fs::remove_dir_all(&spoiled).expect("removed");
        std::fs::write(&spoiled, "").expect("a file");
        assert!(task(&program).starts_with("tcpxctl-boot a3-7 failed cache "));
    }

    #[test]
    fn a_copy_that_a_launcher_brought_is_used_if_it_is_this_program() {
        let home = tempfile::tempdir().expect("a folder");
        let program = program(home.path(), ECHO);
        let cache = home.path().join(".cache/tcpxctl");
        std::fs::create_dir_all(&cache).expect("a folder");
        let Boot::Copy(own) = &program else {
            unreachable!()
        };
        let brought = cache.join(format!(".up-{}", &own.sha256[..16]));
        // A broadcast that broke off, and one that did not.
        for text in ["#!/bin/sh\necho evil\n", ECHO] {
            std::fs::write(&brought, text).expect("written");
            let said = boot(home.path(), &program, "sh", "");
            assert_eq!(said.as_deref(), Ok("run agent\n"));
            assert!(!brought.exists());
        }
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
    fn a_transport_that_only_prints_the_command_is_reported_as_such() {
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
    fn a_program_that_took_the_shell_line_as_its_name_is_quoted_with_its_error() {
        for begin in ["exec of \"sh -c '", "exec of \""] {
            let said = format!("{begin}{LINE}' failed: No such file or directory");
            let told = quoted(&said);
            assert!(told.len() < 80, "{told}");
            assert!(
                told.ends_with("failed: No such file or directory"),
                "{told}"
            );
        }
        assert_eq!(quoted("sh: 1: no agent"), "sh: 1: no agent");
    }

    #[test]
    fn what_a_crash_left_of_an_upload_is_pruned_and_a_recent_one_is_not() {
        let home = tempfile::tempdir().expect("a folder");
        let cache = home.path().join(".cache/tcpxctl");
        std::fs::create_dir_all(&cache).expect("a folder");
        let (old, recent) = (cache.join(".up-old"), cache.join(".up-recent"));
        for file in [&old, &recent] {
            std::fs::write(file, "").expect("written");
        }
        let hours_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
        let file = File::options().write(true).open(&old).expect("opened");
        file.set_modified(hours_ago).expect("a time");
        boot(home.path(), &program(home.path(), ECHO), "sh", "").expect("it starts");
        assert!(!old.exists() && recent.exists());
        assert_eq!(std::fs::read_dir(&cache).expect("a cache").count(), 2);
    }

    #[test]
    fn an_upload_that_ends_early_leaves_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let program = program(home.path(), ECHO);
        let mut shell = Command::new("sh")
            .args(["-c", &program.line()])
            .env("HOME", home.path())
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let (mut stdin, mut stdout) = (
            shell.stdin.take().expect("a pipe"),
            shell.stdout.take().expect("a pipe"),
        );
        assert_eq!(line(&mut stdout).as_deref(), Some("tcpxctl-boot need"));
        stdin.write_all(b"#!/bin").expect("written");
        // A coordinator that was killed reads no answer.
        drop((stdout, stdin));
        shell.wait().expect("it ends");
        let cache = home.path().join(".cache/tcpxctl");
        assert_eq!(std::fs::read_dir(cache).expect("a cache").count(), 0);
    }

    /// Brings an agent to a node that asks for the program and takes no byte of it.
    fn bring_to_a_still_node(interrupted: &AtomicBool) -> (String, Outcome) {
        let home = tempfile::tempdir().expect("a folder");
        let big = program(home.path(), &"x".repeat(300_000));
        let mut command = Command::new("sh");
        command.args(["-c", "echo tcpxctl-boot need; exec sleep 600"]);
        let mut opening = Opening {
            interrupted,
            progress: &mut |_, _| {},
        };
        let link = started(command).expect("a shell");
        let most = Duration::from_millis(300);
        let error = bring_within(most, "node1", link, &big, &mut opening);
        let error = error.err().expect("no agent");
        (error.what, error.outcome)
    }

    #[test]
    fn a_node_that_takes_no_more_bytes_is_given_up() {
        let (what, outcome) = bring_to_a_still_node(&AtomicBool::new(false));
        assert_eq!(outcome, Outcome::PeerLost);
        assert!(
            what.contains("64.0 KiB of 293.0 KiB of tcpxctl were sent"),
            "{what}"
        );
    }

    #[test]
    fn an_interrupt_ends_an_upload() {
        let (what, outcome) = bring_to_a_still_node(&AtomicBool::new(true));
        assert_eq!(outcome, Outcome::Interrupted, "{what}");
    }

    #[test]
    fn an_unusable_cache_folder_is_reported_with_the_reason() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        type Spoil<'a> = &'a dyn Fn(&Path);
        let cases: [(&str, Spoil<'_>); 3] = [
            ("is a link", &|cache| {
                symlink("/tmp", cache).expect("a link")
            }),
            ("other users can write", &|cache| {
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
    fn errors_quote_a_program_that_does_not_start_and_an_account_without_a_shell() {
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
    fn an_installed_program_is_used_unchecked() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("it's here");
        program(home.path(), ECHO);
        std::fs::rename(home.path().join("program"), &path).expect("renamed");
        let there = Boot::at_path(&path.to_string_lossy());
        assert!(
            boot(home.path(), &there, "sh", "")
                .is_err_and(|error| error.contains("no executable file at"))
        );
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("a mode");
        assert_eq!(
            boot(home.path(), &there, "sh", "echo hello; ").as_deref(),
            Ok("run agent\n")
        );
    }

    #[test]
    fn the_line_needs_no_escaping_in_any_login_shell() {
        for line in [LINE, TASK, TASK_AT_PATH] {
            assert!(!line.contains(['\'', '!', '\n', '\\']));
        }
    }

    #[test]
    fn a_full_disk_is_reported() {
        // Files written by this shell are limited to 1 KiB.
        let home = tempfile::tempdir().expect("a folder");
        let big = program(home.path(), &format!("{ECHO}# {}\n", "x".repeat(300_000)));
        let said = boot(home.path(), &big, "sh", "trap '' XFSZ; ulimit -f 1; ");
        assert!(
            said.as_ref()
                .is_err_and(|error| error.contains("cannot write tcpxctl on the node: head: ")),
            "{said:?}"
        );
    }
}
