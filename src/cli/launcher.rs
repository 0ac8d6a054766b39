//! The nodes of a mesh and the launcher that reaches them: a list over ssh, an allocation of Slurm or of
//! MPI, pods, or nodes that call in.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::nodes::Nodes;
use super::signals::interrupted;
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tcpx_coord::reach::allocation::{Allocation, of_many_tasks};
use tcpx_coord::reach::callers::callers;
use tcpx_coord::reach::kubectl::Kubectl;
use tcpx_coord::reach::mpirun::Mpirun;
use tcpx_coord::reach::srun::Srun;
use tcpx_coord::reach::tasks::{Launcher, Tasks};
use tcpx_coord::reach::{ReachError, Transport};
use tcpx_fleet::node_list;
use tcpx_run_model::scenario::hosts::HOSTS_MAX;
use tcpx_words::error::Outcome;
use tcpx_words::units::{TimeSpan, counted};

/// How the nodes of a mesh are reached.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Launchers")]
pub(crate) struct LauncherArguments {
    /// What starts the agents of a mesh. `auto` is srun inside a Slurm allocation, mpirun inside one of
    /// PBS or LSF, kubectl with --pods, and ssh with --hosts.
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    launcher: Choice,
    /// Number of nodes: the first N of the allocation or list, or the N that call in.
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Pods that run and have these labels, such as app=tcpxctl.
    #[arg(long, value_name = "LABELS", conflicts_with = "hosts")]
    pods: Option<String>,
    /// Further options of srun, mpirun or kubectl, such as '--namespace gpu'.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    launcher_options: Option<String>,
    /// How long nodes may take to call in: 60s after srun or mpirun, 5m with --launcher join.
    #[arg(long, value_name = "TIME")]
    wait: Option<TimeSpan>,
    /// Where agents of srun, mpirun and join call in; by default any address and, but for join, any port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// As the environment and the other flags say.
    #[default]
    Auto,
    /// A list of nodes, by ssh or --rsh.
    Ssh,
    /// The nodes of a Slurm allocation, by one step.
    Srun,
    /// A list of hosts, by Open MPI.
    Mpirun,
    /// Pods that are there, by `kubectl exec`.
    Kubectl,
    /// Nodes where `tcpxctl serve --call` runs.
    Join,
}

/// Where nodes that call in find the coordinator.
const CALL_PORT: u16 = 18_501;
const CALL_MAX: Duration = Duration::from_secs(60);
const JOIN_MAX: Duration = Duration::from_secs(300);

/// The nodes of a mesh, and a line that says where they come from, unless that is `--hosts` by ssh.
pub(crate) type Reached = (Vec<Box<dyn Transport>>, Option<String>);

fn usage(what: impl Into<String>, next: &str) -> Failure {
    Failure::new(Outcome::Usage, what).next(next)
}

const NAME_THEM: &str = "name them with --hosts node_ips/tcpx.txt or --hosts a3-[0-15], run this inside a \
                         Slurm allocation, or see --launcher";

impl LauncherArguments {
    /// Whether any of these flags names nodes.
    pub(crate) fn names_nodes(&self) -> bool {
        self.pods.is_some() || self.nodes.is_some() || self.launcher != Choice::Auto
    }

    /// How to reach the nodes of `hosts`, or of what this process runs in.
    pub(crate) fn reached(&self, nodes: &Nodes, hosts: Option<&str>) -> Result<Reached, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        if let Some((name, tasks)) = of_many_tasks(variable) {
            let what =
                format!("this is one of {tasks} tasks ({name}), and each would run the whole mesh");
            return Err(usage(
                what,
                "start `tcpxctl run` once, in the batch script: it starts an agent per node itself",
            ));
        }
        let allocation = Allocation::of(variable);
        match self.chosen(nodes, hosts, allocation.as_ref())? {
            Choice::Join => self.join(nodes),
            Choice::Kubectl => self.kubectl(nodes, hosts),
            Choice::Srun => self.srun(nodes, hosts, allocation),
            Choice::Mpirun => self.mpirun(nodes, hosts, allocation),
            Choice::Ssh | Choice::Auto => self.ssh(nodes, hosts, allocation),
        }
    }

    fn chosen(
        &self,
        nodes: &Nodes,
        hosts: Option<&str>,
        allocation: Option<&Allocation>,
    ) -> Result<Choice, Failure> {
        if self.launcher != Choice::Auto {
            return Ok(self.launcher);
        }
        if self.pods.is_some() {
            return Ok(Choice::Kubectl);
        }
        Ok(match (allocation, hosts) {
            // A list of other nodes is meant for ssh.
            (Some(Allocation::Slurm { nodes: all, .. }), Some(hosts)) => {
                let all: BTreeSet<String> = names(all)?.into_iter().collect();
                let wanted = nodes.names_of(hosts)?;
                match !nodes.has_rsh() && wanted.iter().all(|name| all.contains(name)) {
                    true => Choice::Srun,
                    false => Choice::Ssh,
                }
            }
            (Some(Allocation::Slurm { .. }), None) => Choice::Srun,
            (Some(Allocation::HostFile { .. }), None) => Choice::Mpirun,
            (_, Some(_)) => Choice::Ssh,
            (None, None) => {
                return Err(usage(
                    "the scenario is a mesh, and no nodes are named",
                    NAME_THEM,
                ));
            }
        })
    }

    fn ssh(
        &self,
        nodes: &Nodes,
        hosts: Option<&str>,
        allocation: Option<Allocation>,
    ) -> Result<Reached, Failure> {
        let (listed, said) = match (hosts, allocation) {
            (Some(hosts), _) => (nodes.transports_of(hosts)?, None),
            (None, Some(allocation)) => {
                let (names, origin) = self.allocated(allocation)?;
                let said = format!("ssh, {} of {origin}", counted(names.len(), "node"));
                (nodes.transports_of(&names.join(","))?, Some(said))
            }
            (None, None) => {
                return Err(usage(
                    "the launcher is ssh, and no nodes are named",
                    NAME_THEM,
                ));
            }
        };
        Ok((self.first_nodes(listed)?, said))
    }

    fn srun(
        &self,
        nodes: &Nodes,
        hosts: Option<&str>,
        allocation: Option<Allocation>,
    ) -> Result<Reached, Failure> {
        let Some(allocation @ Allocation::Slurm { .. }) = allocation else {
            let what =
                "the launcher is srun, and this is no Slurm allocation (SLURM_JOB_ID is not set)";
            return Err(usage(
                what,
                "run it with `salloc -N 16 tcpxctl run ...`, or in a batch script (scripts/fleet/mesh.sbatch)",
            ));
        };
        let (all, origin) = self.allocated(allocation)?;
        let wanted = hosts.map_or_else(|| Ok(all.clone()), |hosts| nodes.names_of(hosts))?;
        if let Some(other) = wanted.iter().find(|name| !all.contains(name)) {
            let what = format!("{other} is no node of {origin}");
            return Err(usage(
                what,
                "name nodes of the allocation, or add --launcher ssh",
            ));
        }
        let wanted = self.first_nodes(wanted)?;
        let said = format!("srun, {} of {origin}", counted(wanted.len(), "node"));
        Ok((
            self.tasks(nodes, Box::new(Srun::new(self.options()?)), wanted)?,
            Some(said),
        ))
    }

    fn mpirun(
        &self,
        nodes: &Nodes,
        hosts: Option<&str>,
        allocation: Option<Allocation>,
    ) -> Result<Reached, Failure> {
        let (names, origin) = match (hosts, allocation) {
            (Some(hosts), _) => (nodes.names_of(hosts)?, "--hosts".to_owned()),
            (None, Some(allocation)) => self.allocated(allocation)?,
            (None, None) => {
                return Err(usage(
                    "the launcher is mpirun, and no nodes are named",
                    NAME_THEM,
                ));
            }
        };
        let names = self.first_nodes(names)?;
        let said = format!("mpirun, {} of {origin}", counted(names.len(), "node"));
        Ok((
            self.tasks(nodes, Box::new(Mpirun::new(self.options()?)), names)?,
            Some(said),
        ))
    }

    fn tasks(
        &self,
        nodes: &Nodes,
        launcher: Box<dyn Launcher>,
        names: Vec<String>,
    ) -> Result<Vec<Box<dyn Transport>>, Failure> {
        let boot = nodes.boot_for(launcher.name())?;
        let wait = self.wait.map_or(CALL_MAX, Duration::from);
        Ok(Tasks::transports(launcher, names, boot, self.listen, wait))
    }

    fn kubectl(&self, nodes: &Nodes, hosts: Option<&str>) -> Result<Reached, Failure> {
        let kubectl = Kubectl::new(self.options()?);
        let pods = match (&self.pods, hosts) {
            (Some(labels), _) => kubectl.pods(labels, &*interrupted()?)?,
            (None, Some(hosts)) => nodes.names_of(hosts)?,
            (None, None) => {
                let next =
                    "name them with --hosts pod-[0-15], or by labels with --pods app=tcpxctl";
                return Err(usage(
                    "the launcher is kubectl, and no pods are named",
                    next,
                ));
            }
        };
        let pods = self.first_nodes(pods)?;
        let boot = nodes.boot_for("kubectl")?;
        let said = format!("kubectl, {}", counted(pods.len(), "pod"));
        let reached: Result<_, ReachError> = pods
            .iter()
            .map(|pod| kubectl.pod(pod, boot.clone()))
            .collect();
        Ok((reached?, Some(said)))
    }

    fn join(&self, nodes: &Nodes) -> Result<Reached, Failure> {
        let Some(count) = self.nodes else {
            let what = "the launcher is join, and the number of nodes that call in is not given";
            return Err(usage(what, "add --nodes N"));
        };
        if !(2..=HOSTS_MAX).contains(&count) {
            return Err(usage(
                format!("--nodes {count}: a mesh has 2 to {HOSTS_MAX} nodes"),
                "give their number",
            ));
        }
        let secret = nodes.secret("--launcher join")?;
        let at = self
            .listen
            .unwrap_or((Ipv6Addr::UNSPECIFIED, CALL_PORT).into());
        let (listener, at) = super::serve::listen(at)?;
        let wait = self.wait.map_or(JOIN_MAX, Duration::from);
        super::output::say(&format!(
            "# Waiting up to {} s for {count} nodes that call in on {at}\n",
            wait.as_secs()
        ));
        let called = callers(count, listener, secret, wait, &*interrupted()?)?;
        Ok((
            called,
            Some(format!("join, {count} nodes that call in on {at}")),
        ))
    }

    /// The first `--nodes` of what is there.
    fn first_nodes<T>(&self, mut all: Vec<T>) -> Result<Vec<T>, Failure> {
        if let Some(count) = self.nodes {
            if count > all.len() {
                let what = format!("--nodes {count}: there are only {}", all.len());
                return Err(usage(what, "omit --nodes to take them all"));
            }
            all.truncate(count);
        }
        Ok(all)
    }

    /// The nodes of an allocation, and how it is called.
    fn allocated(&self, allocation: Allocation) -> Result<(Vec<String>, String), Failure> {
        match allocation {
            Allocation::Slurm { job, nodes } => {
                Ok((names(&nodes)?, format!("Slurm job {job} ({nodes})")))
            }
            Allocation::HostFile { variable, path } => {
                let origin = format!("{variable} ({})", path.display());
                Ok((hosts_of_slots(&path)?, origin))
            }
        }
    }

    fn options(&self) -> Result<Vec<String>, Failure> {
        let text = self.launcher_options.as_deref().unwrap_or_default();
        shlex::split(text).ok_or_else(|| {
            Failure::new(Outcome::Usage, "--launcher-options: a quote is not closed")
        })
    }
}

fn names(list: &str) -> Result<Vec<String>, Failure> {
    let bad = |error: node_list::BadList| Failure::new(Outcome::Usage, error.to_string());
    node_list::parse(list).map_err(bad)
}

/// The hosts of a file with a line per slot, each once, in order.
fn hosts_of_slots(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let what = format!(
            "cannot read the hosts of the job, {}: {error}",
            path.display()
        );
        Failure::new(Outcome::NotRun, what)
    })?;
    let mut seen = BTreeSet::new();
    let hosts = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(hosts
        .filter(|host| seen.insert(*host))
        .map(str::to_owned)
        .collect())
}
