//! A tmux terminal for programs that draw a screen: types keys and reads the screen.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A private terminal, closed when this value is dropped.
pub(crate) struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    /// A shell in a terminal of this size; `None` without tmux.
    pub(crate) fn open(columns: u16, lines: u16) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: there is no tmux on this machine");
            return None;
        }
        let terminal = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let size = [columns.to_string(), lines.to_string()];
        let started =
            terminal.tmux(&["new-session", "-d", "-x", &size[0], "-y", &size[1], "sh -i"]);
        assert!(started.status.success(), "{started:?}");
        terminal.type_line(&format!(
            "PS1='ready> '; cd {}; clear",
            terminal.folder.path().display()
        ));
        terminal.shows("ready>");
        Some(terminal)
    }

    pub(crate) fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(["-f", "/dev/null"])
            .args(words);
        command
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .output()
            .unwrap()
    }

    pub(crate) fn press(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }

    pub(crate) fn type_line(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", text]).status.success());
        self.press("Enter");
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    pub(crate) fn shows(&self, text: &str) -> String {
        let until = Instant::now() + Duration::from_secs(40);
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < until, "`{text}` did not show:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn shows_no_more(&self, text: &str) {
        wait_for(&format!("a screen without `{text}`"), || {
            (!self.screen().contains(text)).then_some(())
        });
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The output of `stty -a`, without the size.
    pub(crate) fn settings(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        self.type_line(&format!(
            "clear; stty -a | grep -v rows > {name}; echo settings''-kept"
        ));
        self.shows("settings-kept");
        std::fs::read_to_string(path).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Calls `look` until it returns a value, for at most 40 s.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(Instant::now() < until, "no {what} within 40 s"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
