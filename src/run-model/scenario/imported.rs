//! Settings from the environment that people already have: of a script (`--env-file`) and of this
//! process (`--forward-env`).
//!
//! Variables that plugins, NCCL and CUDA read go to `[env]`, for both ends. The
//! `UCCL_TCPX_*` variables of the field's own programs become the scenario keys that mean the
//! same. A variable that is not taken is told with the reason.
#![forbid(unsafe_code)]

use super::file;
use super::shell::{Value, assignments};
use super::{ScenarioError, error::printable};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Prefixes of the variables that a script is read for; the others are its own.
const PREFIXES: [&str; 4] = ["NCCL_", "UCCL_TCPX_", "TCPXSOFT_", "CUDA_"];
/// Most characters of a file's name in an origin.
const NAME_CHARS_MAX: usize = 80;

/// Settings that were imported, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Origin and `KEY=VALUE`, the later one wins.
    pub(super) settings: Vec<(String, String)>,
    /// What was not taken, and why.
    pub notes: Vec<String>,
}

/// What a variable of the field's programs is here.
enum Meaning {
    /// The key with the same values.
    Key(&'static str),
    /// The key, if the value is 1, with this value.
    Switch(&'static str, &'static str),
    /// Something else.
    None(&'static str),
}

fn meaning(name: &str) -> Option<Meaning> {
    Some(match name {
        "UCCL_TCPX_PLUGIN_PATH" | "NCCL_GPUDIRECTTCPX_PLUGIN_PATH" => Meaning::Key("plugin.path"),
        "UCCL_TCPX_NUM_CHANNELS" => Meaning::Key("transfer.connections"),
        "UCCL_TCPX_PERF_SIZE" => Meaning::Key("transfer.total"),
        "UCCL_TCPX_PERF_ITERS" => Meaning::Key("transfer.iterations"),
        "UCCL_TCPX_CHUNK_BYTES" => Meaning::Key("transfer.chunk"),
        "UCCL_TCPX_UNPACK_IMPL" => Meaning::Key("transfer.unpack"),
        "UCCL_TCPX_HOST_RECV_DEBUG" => Meaning::Switch("transfer.memory", "host"),
        "UCCL_TCPX_BOOTSTRAP_PORT_BASE" => Meaning::None("use --bootstrap-port"),
        "UCCL_TCPX_NET_DEVICE" => {
            Meaning::None("name the interface: --set 'topology.nics=[\"eth1\"]'")
        }
        "UCCL_TCPX_PAYLOAD_BYTES" => Meaning::None("use --set transfer.total=BYTES"),
        "UCCL_TCPX_WINDOW_SIZE" => {
            Meaning::None("no program reads it; use --set transfer.recv_window=N")
        }
        "UCCL_TCPX_DEBUG"
        | "UCCL_TCPX_LAUNCH_DEBUG"
        | "UCCL_TCPX_PROBE_BYTE"
        | "UCCL_TCPX_USE_STAGING" => Meaning::None("it concerns the other program only"),
        _ if name.starts_with("UCCL_TCPX_") => Meaning::None("no key of a scenario means the same"),
        _ => return None,
    })
}

impl Imported {
    /// Reads a script or an env file without running it. `variable` reads this environment.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn add_file(
        &mut self,
        path: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), ScenarioError> {
        let script = file::read(path).map_err(|error| match error {
            ScenarioError::Unreadable { path, source, .. } => {
                ScenarioError::UnreadableScript { path, source }
            }
            error => ScenarioError::UnreadableScript {
                path: path.to_owned(),
                source: io::Error::other(match error {
                    ScenarioError::TooLarge { limit, .. } => format!("larger than {limit} bytes"),
                    ScenarioError::NotText { offset, .. } => format!("byte {offset} is no text"),
                    _ => "it is a folder".to_owned(),
                }),
            },
        })?;
        let shown = printable(&path.to_string_lossy(), NAME_CHARS_MAX);
        let mut lines: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let found = assignments(&script, variable);
        let matters = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let found: Vec<_> = found.into_iter().filter(|one| matters(&one.name)).collect();
        if found.is_empty() {
            let names = PREFIXES.map(|prefix| format!("{prefix}*")).join(", ");
            self.notes.push(format!("{shown}: sets none of {names}"));
        }
        for one in found {
            let at = format!("{shown}:{}", one.line);
            match one.value {
                Value::Known(value) => {
                    if one.conditional {
                        self.notes.push(format!(
                            "{at}: {} is set on a condition, which is not evaluated: it is taken",
                            one.name
                        ));
                    }
                    let earlier = lines.insert(one.name.clone(), (one.line, value.clone()));
                    if let Some((line, before)) = earlier.filter(|(_, before)| *before != value) {
                        self.notes.push(format!(
                            "{at}: {} is `{}` here and `{}` on line {line}: the last one counts",
                            one.name,
                            printable(&value, NAME_CHARS_MAX),
                            printable(&before, NAME_CHARS_MAX)
                        ));
                    }
                    self.add(&at, &one.name, &value);
                }
                Value::Unknown(why) => self
                    .notes
                    .push(format!("{at}: {} is not taken: {why}", one.name)),
                Value::Unset if one.conditional => self.notes.push(format!(
                    "{at}: {} is unset on a condition, which is not evaluated: it is kept",
                    one.name
                )),
                Value::Unset => {
                    if let Some((line, _)) = lines.remove(&one.name) {
                        self.remove(&shown, &one.name);
                        self.notes.push(format!(
                            "{at}: {} is unset here: its value on line {line} does not count",
                            one.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the variables of `all` whose names match `pattern`, in which `*` is any text.
    ///
    /// # Errors
    /// The pattern begins with `*`: an environment holds secrets.
    pub fn add_matching(
        &mut self,
        pattern: &str,
        all: impl Iterator<Item = (String, String)>,
    ) -> Result<(), ScenarioError> {
        if !pattern.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Err(ScenarioError::ForwardsAll(printable(
                pattern,
                NAME_CHARS_MAX,
            )));
        }
        let mut found: Vec<_> = all.filter(|(name, _)| matches(pattern, name)).collect();
        found.sort();
        if found.is_empty() {
            let pattern = printable(pattern, NAME_CHARS_MAX);
            self.notes
                .push(format!("--forward-env {pattern}: no variable is set"));
        }
        for (name, value) in found {
            self.add("this environment", &name, &value);
        }
        Ok(())
    }

    /// Removes what a file set a variable to.
    fn remove(&mut self, file: &str, name: &str) {
        let (of_file, as_key) = (format!("{file}:"), format!(" {name}"));
        let as_variable = format!("env.{name}=");
        self.settings.retain(|(at, setting)| {
            let is_of_name = at.ends_with(&as_key) || setting.starts_with(&as_variable);
            !(at.starts_with(&of_file) && is_of_name)
        });
    }

    fn add(&mut self, at: &str, name: &str, value: &str) {
        let quoted = toml::Value::from(value).to_string();
        match meaning(name) {
            None => {
                let setting = format!("env.{name}={quoted}");
                self.settings.push((at.to_owned(), setting));
            }
            // An empty value names no file.
            Some(Meaning::Key("plugin.path")) if value.is_empty() => {}
            Some(Meaning::Key(key)) => {
                // Numbers are written as such, sizes and words as text.
                let is_number =
                    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let value = if is_number { value } else { &quoted };
                self.settings
                    .push((format!("{at} {name}"), format!("{key}={value}")));
            }
            Some(Meaning::Switch(_, _)) if value != "1" => {}
            Some(Meaning::Switch(key, word)) => self
                .settings
                .push((format!("{at} {name}"), format!("{key}={word}"))),
            Some(Meaning::None(instead)) => self
                .notes
                .push(format!("{at}: {name} is not taken: {instead}")),
        }
    }
}

/// Whether a name matches a pattern in which `*` is any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| matches(rest, name)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Inputs, resolve};

    fn imported(script: &str) -> Imported {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.sh");
        std::fs::write(&path, script).expect("written");
        let mut imported = Imported::default();
        imported.add_file(&path, |_| None).expect("read");
        let folder = format!("{}/", folder.path().display());
        let without = |text: &mut String| *text = text.replace(&folder, "");
        imported.settings.iter_mut().for_each(|(at, _)| without(at));
        imported.notes.iter_mut().for_each(without);
        imported
    }

    #[test]
    fn a_script_of_the_field_becomes_keys_with_their_origin() {
        let imported = imported(
            "#!/bin/bash\nexport UCCL_TCPX_NUM_CHANNELS=8\nexport UCCL_TCPX_CHUNK_BYTES=$((1<<20))\n\
             export UCCL_TCPX_PERF_SIZE=67108864 NCCL_NSOCKS_PERTHREAD=4\nPATH=/usr/bin\n\
             UCCL_TCPX_BOOTSTRAP_PORT_BASE=20000 NCCL_DYNAMIC_CHUNK_SIZE=\"524288\" ./prog server\n",
        );
        let inputs = Inputs {
            imported,
            flags: vec![("--set".into(), "transfer.iterations=3".into())],
            ..Inputs::default()
        };
        let run = &resolve(&inputs).expect("resolves")[0];
        assert_eq!(run.scenario.transfer.connections, 8);
        assert_eq!(run.scenario.transfer.total.0, 64 << 20);
        assert_eq!(run.scenario.env.all["NCCL_NSOCKS_PERTHREAD"], "4");
        let origin = |key: &str| run.origin(key).to_string();
        assert_eq!(
            origin("transfer.connections"),
            "run.sh:2 UCCL_TCPX_NUM_CHANNELS"
        );
        assert_eq!(origin("env.NCCL_DYNAMIC_CHUNK_SIZE"), "run.sh:6");
        assert_eq!(
            inputs.imported.notes,
            [
                "run.sh:3: UCCL_TCPX_CHUNK_BYTES is not taken: arithmetic is not computed",
                "run.sh:6: UCCL_TCPX_BOOTSTRAP_PORT_BASE is not taken: use --bootstrap-port",
            ]
        );
    }

    #[test]
    fn a_flag_beats_a_script_and_a_second_value_is_told() {
        let imported = imported("NCCL_A=1\nif x; then\nNCCL_A=2\nfi\nUCCL_TCPX_NUM_CHANNELS=2");
        assert_eq!(
            imported.notes,
            [
                "run.sh:3: NCCL_A is set on a condition, which is not evaluated: it is taken",
                "run.sh:3: NCCL_A is `2` here and `1` on line 1: the last one counts"
            ]
        );
        let flags = vec![("--set".into(), "transfer.connections=5".into())];
        let inputs = Inputs {
            imported,
            flags,
            ..Inputs::default()
        };
        let run = &resolve(&inputs).expect("resolves")[0];
        assert_eq!(run.scenario.transfer.connections, 5);
        assert_eq!(run.scenario.env.all["NCCL_A"], "2");
    }

    #[test]
    fn what_a_script_unsets_is_not_taken() {
        let read = imported(
            "NCCL_A=1 UCCL_TCPX_NUM_CHANNELS=2 NCCL_AB=3\nunset NCCL_A UCCL_TCPX_NUM_CHANNELS NCCL_C",
        );
        let settings = [("run.sh:1".to_owned(), "env.NCCL_AB=\"3\"".to_owned())];
        assert_eq!(read.settings, settings);
        assert_eq!(
            read.notes,
            [
                "run.sh:2: NCCL_A is unset here: its value on line 1 does not count",
                "run.sh:2: UCCL_TCPX_NUM_CHANNELS is unset here: its value on line 1 does not count"
            ]
        );
        let read = imported("NCCL_A=1\nx && unset NCCL_A");
        assert_eq!(read.settings.len(), 1);
        assert!(read.notes[0].ends_with("it is kept"), "{:?}", read.notes);
    }

    #[test]
    fn a_device_or_a_file_that_is_too_large_is_no_script() {
        let folder = tempfile::tempdir().expect("a folder");
        let large = folder.path().join("large.sh");
        let file = std::fs::File::create(&large).expect("created");
        file.set_len(1 << 30).expect("as long as that");
        for (path, words) in [
            (large.as_path(), "larger than"),
            (Path::new("/dev/zero"), "may have no end"),
        ] {
            let mut imported = Imported::default();
            let error = imported.add_file(path, |_| None);
            let error = error.expect_err("refused").to_string();
            assert!(
                error.contains(words) && !error.contains("scenario"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_pattern_takes_what_it_names_and_never_everything() {
        let all = [("NCCL_A", "x y"), ("NCCL_DEBUG", "INFO"), ("HOME", "/root")];
        let all = || all.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned()));
        let mut imported = Imported::default();
        imported.add_matching("NCCL_*", all()).expect("a pattern");
        imported.add_matching("MY_*", all()).expect("a pattern");
        assert_eq!(
            imported.settings,
            [
                (
                    "this environment".to_owned(),
                    "env.NCCL_A=\"x y\"".to_owned()
                ),
                (
                    "this environment".to_owned(),
                    "env.NCCL_DEBUG=\"INFO\"".to_owned()
                ),
            ]
        );
        assert_eq!(imported.notes, ["--forward-env MY_*: no variable is set"]);
        for pattern in ["*", "**", "", "*_TOKEN"] {
            assert!(imported.add_matching(pattern, all()).is_err(), "{pattern}");
        }
        assert!(matches("A*B*", "A_xB_") && !matches("A*B", "A_x") && matches("A", "A"));
    }
}
