//! The flags that name the two nodes and the transports to reach them.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::signals::interrupted;
use clap::Args;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use tcpx_bootstrap::{Secret, secret_file};
use tcpx_coord::TaskNode;
use tcpx_coord::reach::install::Boot;
use tcpx_coord::reach::join::Join;
use tcpx_coord::reach::rsh::Rsh;
use tcpx_coord::reach::ssh::{Ssh, Target};
use tcpx_coord::reach::{Opening, ReachError, Transport, child::Local};
use tcpx_fleet::node_list;
use tcpx_run_model::scenario::PluginChoice;
use tcpx_run_model::scenario::hosts::{self, Host};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::ByteCount;

/// The two nodes of a command.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct Nodes {
    /// The other node: [user@]host[:port], or a name from node_ips/*.txt.
    #[arg(long, value_name = "HOST", conflicts_with = "join")]
    peer: Option<String>,
    /// Run the local end on HOST instead of this machine, so that two remote nodes are driven from here.
    #[arg(long, value_name = "HOST")]
    from: Option<String>,
    /// Reach nodes with a command instead of libssh2, such as 'ssh -J bastion' or 'kubectl exec -i {} --'.
    #[arg(long, value_name = "CMD")]
    rsh: Option<String>,
    /// Join a node that runs `tcpxctl serve`, over a connection that the secret encrypts.
    #[arg(long, value_name = "HOST:PORT", requires = "secret_file")]
    join: Option<String>,
    /// Secret file that `tcpxctl serve` uses.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Path of tcpxctl on the nodes, instead of sending a copy of this program.
    #[arg(long, value_name = "PATH")]
    remote_bin: Option<String>,
    /// Trust the host key of a node that is not in known_hosts, and add it.
    #[arg(long)]
    accept_new_host_key: bool,
    /// ssh configuration instead of ~/.ssh/config.
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// Private key to log in with.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Port on which the receiving end waits for the other one; 0 is any free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    bootstrap_port: u16,
}

const LISTS: &str = "node_ips";

impl Nodes {
    /// Port of the bootstrap; 0 is any free port.
    pub(crate) fn bootstrap_port(&self) -> u16 {
        self.bootstrap_port
    }

    /// The same flags, as arguments of another subcommand.
    pub(crate) fn as_arguments(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("--peer", self.peer.clone()),
            ("--from", self.from.clone()),
            ("--rsh", self.rsh.clone()),
            ("--join", self.join.clone()),
            ("--secret-file", path(&self.secret_file)),
            ("--remote-bin", self.remote_bin.clone()),
            ("--ssh-config", path(&self.ssh_config)),
            ("--identity", path(&self.identity)),
        ];
        let given = flags
            .into_iter()
            .filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        let trusting = self
            .accept_new_host_key
            .then(|| "--accept-new-host-key".to_owned());
        given.flatten().chain(trusting).collect()
    }

    /// Whether the flags name a second node.
    pub(crate) fn has_peer(&self) -> bool {
        self.peer.is_some() || self.join.is_some()
    }

    /// How to reach the peer, for commands that need only one node.
    pub(crate) fn peer(&self) -> Result<Option<Box<dyn Transport>>, ReachError> {
        let [_, peer] = self.transports()?;
        Ok(self.has_peer().then_some(peer))
    }

    /// As [`Nodes::peer`], for commands whose first node is this machine.
    pub(crate) fn peer_of_here(&self) -> Result<Option<Box<dyn Transport>>, ReachError> {
        let Some(host) = &self.from else {
            return self.peer();
        };
        let what = "this command runs on the machine where you type it";
        Err(ReachError::new("--from", Outcome::Usage, what).next(format!("run it on {host}")))
    }

    /// The peer and the command of `--rsh`, for commands that start other programs there.
    pub(crate) fn peer_by_command(&self) -> Result<Option<(String, String)>, Failure> {
        let usage = |what: &str| Failure::new(Outcome::Usage, what);
        if self.from.is_some() || self.join.is_some() {
            let what = "an endpoint is tested from this machine, with or without --peer and --rsh";
            return Err(usage(what).next("omit --from and --join"));
        }
        match (&self.peer, &self.rsh) {
            (Some(peer), Some(command)) => Ok(Some((peer.clone(), command.clone()))),
            (Some(_), None) => Err(usage("--endpoint reaches the other node by a command only")
                .next("add --rsh ssh, or another command that runs a shell line there")),
            (None, _) => match self.flag_without_peer() {
                Some(flag) => Err(usage(&format!("{flag}: the flag needs a second node"))
                    .next("name the second node with --peer")),
                None => Ok(None),
            },
        }
    }

    /// Every node of the command, by the name its user gave it: this machine (or
    /// `--from`), and the peer where there is one.
    pub(crate) fn all(&self, plugin: &PluginChoice) -> Result<Vec<(String, TaskNode)>, Failure> {
        let [local, peer] = self.transports()?;
        let first = match self.from {
            Some(_) => node_at(&*local, plugin)?,
            None => TaskNode::here(plugin),
        };
        let mut all = vec![(local.node().to_owned(), first)];
        if self.has_peer() {
            all.push((peer.node().to_owned(), node_at(&*peer, plugin)?));
        }
        Ok(all)
    }

    /// The peer where there is one, else this machine: for commands about one node.
    pub(crate) fn last(&self, plugin: &PluginChoice) -> Result<TaskNode, Failure> {
        match self.peer_of_here()? {
            Some(transport) => node_at(&*transport, plugin),
            None => Ok(TaskNode::here(plugin)),
        }
    }

    /// How to reach local and peer.
    pub(crate) fn transports(&self) -> Result<[Box<dyn Transport>; 2], ReachError> {
        if let (Some(from), Some(peer)) = (&self.from, &self.peer)
            && from == peer
        {
            return Err(
                ReachError::new(peer, Outcome::Usage, "both ends are the same node")
                    .next("name two nodes, or omit both to run on this machine"),
            );
        }
        if let Some(flag) = self.flag_without_peer() {
            return Err(
                ReachError::new(flag, Outcome::Usage, "the flag needs a second node")
                    .next("name the second node with --peer or --join"),
            );
        }
        // Read once for both nodes, and only if a node needs it.
        let boot = LazyCell::new(|| self.boot());
        let local = match &self.from {
            Some(host) => self.transport_to(host, &boot)?,
            None => Box::new(Local),
        };
        let peer = match (&self.peer, &self.join, &self.secret_file) {
            (Some(host), ..) => self.transport_to(host, &boot)?,
            (None, Some(address), Some(_)) => Box::new(Join::new(address, self.secret(address)?)),
            _ => Box::new(Local),
        };
        Ok([local, peer])
    }

    /// How to reach each node of a list: a file, or names as Slurm writes them.
    pub(crate) fn transports_of(&self, list: &str) -> Result<Vec<Box<dyn Transport>>, ReachError> {
        let boot = LazyCell::new(|| self.boot());
        if let Some(file) = list_file(list) {
            let hosts = read(file, "--hosts")?;
            return hosts
                .into_iter()
                .map(|host| self.transport_to_host(host, &boot))
                .collect();
        }
        let names = self.names_of(list)?;
        names
            .iter()
            .map(|name| self.transport_to(name, &boot))
            .collect()
    }

    /// The names of the nodes of a list, for launchers that have their own way to a host.
    pub(crate) fn names_of(&self, list: &str) -> Result<Vec<String>, ReachError> {
        if let Some(file) = list_file(list) {
            let hosts = read(file, "--hosts")?;
            return Ok(hosts.into_iter().map(|host| host.host).collect());
        }
        let wrong = |why: String| ReachError::new("--hosts", Outcome::Usage, why);
        let names = node_list::parse(list).map_err(|error| {
            let explained = wrong(error.to_string());
            match error.next_step() {
                Some(next) => explained.next(next),
                None => explained,
            }
        })?;
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(wrong(format!("{name} is named twice")));
        }
        if names.len() > hosts::HOSTS_MAX {
            let what = format!(
                "{} nodes; at most {} can be driven",
                names.len(),
                hosts::HOSTS_MAX
            );
            return Err(wrong(what));
        }
        Ok(names)
    }

    /// Whether the user chose the command that reaches nodes.
    pub(crate) fn has_rsh(&self) -> bool {
        self.rsh.is_some()
    }

    /// The secret of `--secret-file`, which `who` needs.
    pub(crate) fn secret(&self, who: &str) -> Result<Secret, ReachError> {
        let wrong = |why: String| ReachError::new(who, Outcome::Usage, why);
        let Some(file) = &self.secret_file else {
            return Err(wrong("it needs the secret that the nodes have".into())
                .next("give its file with --secret-file FILE"));
        };
        secret_file::read(file).map_err(wrong)
    }

    /// The program that a launcher starts on the nodes.
    pub(crate) fn boot_for(&self, launcher: &str) -> Result<Boot, ReachError> {
        read_boot(launcher, &self.boot())
    }

    /// A flag that needs a second node, if none is named.
    fn flag_without_peer(&self) -> Option<&'static str> {
        if self.has_peer() {
            return None;
        }
        let given = [
            ("--from", self.from.is_some()),
            ("--rsh", self.rsh.is_some()),
            ("--secret-file", self.secret_file.is_some()),
            ("--remote-bin", self.remote_bin.is_some()),
            ("--accept-new-host-key", self.accept_new_host_key),
            ("--ssh-config", self.ssh_config.is_some()),
            ("--identity", self.identity.is_some()),
        ];
        given
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(flag, _)| flag)
    }

    fn boot(&self) -> io::Result<Boot> {
        self.remote_bin
            .as_deref()
            .map_or_else(Boot::copy, |path| Ok(Boot::at_path(path)))
    }

    fn transport_to(
        &self,
        typed: &str,
        boot: &io::Result<Boot>,
    ) -> Result<Box<dyn Transport>, ReachError> {
        if let Some(host) = listed(typed)? {
            return self.transport_to_host(host, boot);
        }
        if let Some(command) = &self.rsh {
            return Ok(Box::new(Rsh::new(typed, command, read_boot(typed, boot)?)?));
        }
        self.ssh_to(parse(typed)?, boot)
    }

    /// How to reach a host of a list.
    fn transport_to_host(
        &self,
        host: Host,
        boot: &io::Result<Boot>,
    ) -> Result<Box<dyn Transport>, ReachError> {
        if let Some(command) = &self.rsh {
            let boot = read_boot(&host.host, boot)?;
            return Ok(Box::new(Rsh::new(&login(&host), command, boot)?));
        }
        let target = Target {
            name: host.name,
            host: host.host,
            user: host.user,
            port: host.port,
            key: host.key,
            ..Target::default()
        };
        self.ssh_to(target, boot)
    }

    fn ssh_to(
        &self,
        mut target: Target,
        boot: &io::Result<Boot>,
    ) -> Result<Box<dyn Transport>, ReachError> {
        let boot = read_boot(&target.name, boot)?;
        target.key = self.identity.clone().or(target.key);
        target.config.clone_from(&self.ssh_config);
        target.accept_new_host_key = self.accept_new_host_key;
        Ok(Box::new(Ssh::new(target, boot)?))
    }
}

/// The file that a list of nodes is in, unless it is a list of names.
fn list_file(list: &str) -> Option<&Path> {
    (list.contains('/') || list.ends_with(".txt")).then(|| Path::new(list))
}

fn read_boot(node: &str, boot: &io::Result<Boot>) -> Result<Boot, ReachError> {
    let cannot = |error| {
        let what = format!("cannot read this program: {error}");
        ReachError::new(node, Outcome::NotRun, what)
    };
    Ok(boot.as_ref().map_err(cannot)?.clone())
}

/// A node behind `transport`, with the progress of sending the program there.
pub(crate) fn node_at(
    transport: &dyn Transport,
    plugin: &PluginChoice,
) -> Result<TaskNode, Failure> {
    let flag = interrupted()?;
    let mut opening = Opening {
        interrupted: &flag,
        progress: &mut |sent, all| upload(transport.node(), sent, all),
    };
    let mut node = TaskNode::at(transport, plugin, &mut opening)?;
    node.until(flag);
    Ok(node)
}

/// Shows the progress of sending the program, on a terminal.
pub(crate) fn upload(node: &str, sent: u64, all: u64) {
    if std::io::stderr().is_terminal() {
        let end = if sent == all { "\r\x1b[K" } else { "" };
        let done = sent * 100 / all.max(1);
        // The progress is lost if the terminal is gone.
        let _ = write!(
            std::io::stderr(),
            "\r# sending tcpxctl to {node}: {done:3} % of {}{end}",
            ByteCount(all)
        );
    }
}

fn login(host: &Host) -> String {
    host.user
        .as_ref()
        .map_or_else(|| host.host.clone(), |user| format!("{user}@{}", host.host))
}

/// `[user@]host[:port]`; an IPv6 address with a port stands in brackets.
fn parse(typed: &str) -> Result<Target, ReachError> {
    let wrong = |what: &str| {
        ReachError::new(typed, Outcome::Usage, what.to_owned())
            .next("give [user@]host[:port], such as 10.0.0.226")
    };
    let (user, rest) = match typed.rsplit_once('@') {
        Some(("", _)) => return Err(wrong("the user is empty")),
        Some((user, rest)) => (Some(user.to_owned()), rest),
        None => (None, typed),
    };
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match rest.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (rest, None),
        },
    };
    let port = match port.map(str::parse::<u16>) {
        Some(Ok(0) | Err(_)) => return Err(wrong("the port is not between 1 and 65535")),
        Some(Ok(port)) => Some(port),
        None => None,
    };
    if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
        return Err(wrong("this is not a host name or address"));
    }
    Ok(Target {
        name: typed.to_owned(),
        host: host.to_owned(),
        user,
        port,
        ..Target::default()
    })
}

/// The host of that name or address in node_ips/*.txt.
fn listed(typed: &str) -> Result<Option<Host>, ReachError> {
    let Ok(folder) = std::fs::read_dir(LISTS) else {
        return Ok(None);
    };
    let is_list = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "txt");
    let mut lists: Vec<PathBuf> = folder
        .flatten()
        .map(|entry| entry.path())
        .filter(is_list)
        .collect();
    lists.sort();
    let mut found: Option<(PathBuf, Host)> = None;
    for list in lists {
        let hosts = read(&list, typed)?;
        let Some(host) = hosts
            .into_iter()
            .find(|host| host.name == typed || host.host == typed)
        else {
            continue;
        };
        match &found {
            Some((first, other)) if *other != host => {
                let what = format!(
                    "{} and {} have different entries for it",
                    first.display(),
                    list.display()
                );
                return Err(
                    ReachError::new(typed, Outcome::Usage, what).next("keep one of the two lines")
                );
            }
            _ => found = Some((list, host)),
        }
    }
    Ok(found.map(|(_, host)| host))
}

fn read(list: &Path, typed: &str) -> Result<Vec<Host>, ReachError> {
    hosts::read(list).map_err(|error| {
        let explained = ReachError::new(typed, error.outcome(), error.to_string());
        match error.next_step() {
            Some(next) => explained.next(next),
            None => explained,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_as_ssh_reads_it() {
        let read = |typed: &str| {
            parse(typed)
                .map(|target| (target.user, target.host, target.port))
                .ok()
        };
        assert_eq!(read("10.0.0.226"), Some((None, "10.0.0.226".into(), None)));
        assert_eq!(
            read("me@node1:2222"),
            Some((Some("me".into()), "node1".into(), Some(2222)))
        );
        assert_eq!(read("fd00::1"), Some((None, "fd00::1".into(), None)));
        assert_eq!(
            read("[fd00::1]:22"),
            Some((None, "fd00::1".into(), Some(22)))
        );
        for wrong in [
            "",
            "@node1",
            "node1:0",
            "node1:ssh",
            "-oProxyCommand=x",
            "a b",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
