//! The user's ssh configuration for a host, resolved by `ssh -G`.
#![forbid(unsafe_code)]

use super::super::helper::Helpers;
use super::super::{REACH_MAX, ReachError, Until};
use super::Target;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use tcpx_words::error::Outcome;

/// The resolved settings: defaults, configuration files and the target's own values.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// Address or name to connect to.
    pub host: String,
    /// Port of the sshd.
    pub port: u16,
    /// User to log in as.
    pub user: String,
    /// Private keys in the order to try; some files may not exist.
    pub keys: Vec<PathBuf>,
    /// Whether to offer only these keys and none of the ssh agent's.
    pub only_keys: bool,
    /// The known_hosts files; new keys are added to the first.
    pub known_hosts: Vec<PathBuf>,
    /// Name under which the host's key is looked up, if not `host`.
    pub key_alias: Option<String>,
    jump: Option<String>,
    proxy: Option<String>,
}

impl Settings {
    /// The command that carries the connection; `None` for a direct connection.
    pub(super) fn proxy(&self, target: &Target) -> Option<String> {
        if let Some(jump) = &self.jump {
            // One ssh command: it logs in to the last hop and reaches that through the others.
            let (others, last) = match jump.rsplit_once(',') {
                Some((others, last)) => (Some(others), last),
                None => (None, jump.as_str()),
            };
            let mut words = vec!["ssh".to_owned()];
            if let Some(config) = &target.config {
                words.extend(["-F".into(), config.to_string_lossy().into_owned()]);
            }
            if let Some(others) = others {
                words.extend(["-J".into(), others.to_owned()]);
            }
            let (last, port) = match last.rsplit_once(':') {
                Some((host, port)) if port.parse::<u16>().is_ok() => (host, Some(port.to_owned())),
                _ => (last, None),
            };
            words.extend(port.into_iter().flat_map(|port| ["-p".to_owned(), port]));
            words.extend([
                "-W".into(),
                format!("[{}]:{}", self.host, self.port),
                "--".into(),
                last.to_owned(),
            ]);
            return Some(
                words
                    .iter()
                    .map(|word| tcpx_words::units::shell_word(word))
                    .collect::<Vec<_>>()
                    .join(" "),
            );
        }
        let command = self.proxy.as_ref()?;
        let filled = command
            .replace("%h", &self.host)
            .replace("%p", &self.port.to_string())
            .replace("%r", &self.user)
            .replace("%n", &target.host)
            .replace("%%", "%");
        Some(filled)
    }
}

/// Runs `ssh -G`. If ssh is not installed, uses the target's own values and the default files.
pub(super) fn ask(
    target: &Target,
    helpers: &Helpers,
    until: Until,
) -> Result<Settings, ReachError> {
    let mut command = Command::new("ssh");
    command.arg("-G");
    if let Some(config) = &target.config {
        command.arg("-F").arg(config);
    }
    if let Some(user) = &target.user {
        command.args(["-l", user]);
    }
    if let Some(port) = target.port {
        command.args(["-p", &port.to_string()]);
    }
    command.args(["--", &target.host]);
    let failed = |outcome, what| ReachError::new(&target.name, outcome, what);
    let mut settings = match helpers.ask(&mut command, until, &AtomicBool::new(false)) {
        Ok(answer) if answer.status.success() => parse(&answer.stdout),
        Ok(answer) => {
            let what = format!("`ssh -G` failed: {}", answer.why());
            return Err(failed(Outcome::Usage, what));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => without_ssh(target),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let what = format!("`ssh -G` did not end within {} s", REACH_MAX.as_secs());
            return Err(failed(Outcome::NotRun, what).next(
                "look in the ssh configuration for a `Match exec` command that waits, or a file that is a pipe",
            ));
        }
        Err(error) => {
            let what = format!("cannot run `ssh -G`: {error}");
            return Err(failed(Outcome::NotRun, what));
        }
    };
    if let Some(key) = &target.key {
        settings.keys.insert(0, key.clone());
    }
    Ok(settings)
}

fn without_ssh(target: &Target) -> Settings {
    let keys = ["id_ed25519", "id_ecdsa", "id_rsa"].map(|name| home().join(".ssh").join(name));
    Settings {
        host: target.host.clone(),
        port: target.port.unwrap_or(22),
        user: target
            .user
            .clone()
            .or_else(|| std::env::var("USER").ok())
            .unwrap_or_else(|| "root".into()),
        keys: keys.into(),
        known_hosts: vec![
            home().join(".ssh/known_hosts"),
            "/etc/ssh/ssh_known_hosts".into(),
        ],
        ..Settings::default()
    }
}

fn home() -> PathBuf {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// Parses the output of `ssh -G`: `keyword value` on each line.
fn parse(text: &str) -> Settings {
    let mut settings = Settings {
        port: 22,
        ..Settings::default()
    };
    for (keyword, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        let is_set = value != "none";
        match keyword {
            "hostname" => value.clone_into(&mut settings.host),
            "port" => settings.port = value.parse().unwrap_or(22),
            "user" => value.clone_into(&mut settings.user),
            "identityfile" if is_set => settings.keys.push(path(value)),
            "identitiesonly" => settings.only_keys = value == "yes",
            "userknownhostsfile" | "globalknownhostsfile" if is_set => {
                settings.known_hosts.extend(value.split(' ').map(path));
            }
            "hostkeyalias" => settings.key_alias = Some(value.to_owned()),
            "proxyjump" if is_set => settings.jump = Some(value.to_owned()),
            "proxycommand" if is_set => settings.proxy = Some(value.to_owned()),
            _ => {}
        }
    }
    // The user's files come before the system's, whatever the order of the lines.
    settings
        .known_hosts
        .sort_by_key(|path| path.starts_with("/etc"));
    settings
}

fn path(text: &str) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => home().join(rest),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOLVED: &str = "\
user maint
hostname 10.0.0.226
port 2222
identitiesonly yes
identityfile ~/.ssh/lab
identityfile /keys/other
globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2
userknownhostsfile /tmp/known
proxyjump none
hostkeyalias node1
";

    #[test]
    fn the_output_of_ssh_g_is_parsed() {
        let settings = parse(RESOLVED);
        assert_eq!(
            (
                settings.host.as_str(),
                settings.port,
                settings.user.as_str()
            ),
            ("10.0.0.226", 2222, "maint")
        );
        assert_eq!(
            settings.keys,
            [home().join(".ssh/lab"), "/keys/other".into()]
        );
        assert_eq!(settings.known_hosts[0], PathBuf::from("/tmp/known"));
        assert!(settings.only_keys && settings.key_alias.as_deref() == Some("node1"));
        assert_eq!(settings.proxy(&Target::default()), None);
    }

    #[test]
    fn a_proxy_jump_of_any_number_of_hops_is_one_command() {
        let jump = |jump: &str| {
            Settings {
                jump: Some(jump.to_owned()),
                ..parse(RESOLVED)
            }
            .proxy(&Target::default())
        };
        let plain = "ssh -W '[10.0.0.226]:2222' -- 'me@bastion'";
        assert_eq!(jump("me@bastion").as_deref(), Some(plain));
        let two = "ssh -J first -p 2200 -W '[10.0.0.226]:2222' -- second";
        assert_eq!(jump("first,second:2200").as_deref(), Some(two));
    }

    #[test]
    fn the_tokens_of_a_proxy_command_are_replaced() {
        let settings = Settings {
            proxy: Some("nc -x %n %h %p".into()),
            ..parse(RESOLVED)
        };
        let target = Target {
            host: "node1".into(),
            ..Target::default()
        };
        assert_eq!(
            settings.proxy(&target).as_deref(),
            Some("nc -x node1 10.0.0.226 2222")
        );
    }
}
