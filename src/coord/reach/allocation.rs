//! The allocation that this process runs in, as its environment says.
#![forbid(unsafe_code)]

use std::path::PathBuf;

/// Nodes that a scheduler has given to this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// Of Slurm: a list as Slurm writes it.
    Slurm {
        /// The job's number.
        job: String,
        /// Its nodes.
        nodes: String,
    },
    /// Of PBS or LSF: a file with a line per slot.
    HostFile {
        /// The variable that names it.
        variable: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// Variables that name a file with the hosts of a job.
const HOST_FILES: [&str; 2] = ["PBS_NODEFILE", "LSB_DJOB_HOSTFILE"];

impl Allocation {
    /// What these variables say.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let list = || set("SLURM_JOB_NODELIST").or_else(|| set("SLURM_NODELIST"));
        if let (Some(job), Some(nodes)) = (set("SLURM_JOB_ID"), list()) {
            return Some(Self::Slurm { job, nodes });
        }
        let file = |variable: &'static str| {
            let path = set(variable)?.into();
            Some(Self::HostFile { variable, path })
        };
        HOST_FILES.into_iter().find_map(file)
    }
}

/// How many tasks the launcher has started of which this process is one, if more than one: the variable
/// and its value. Each of them would be a coordinator.
pub fn of_many_tasks(variable: impl Fn(&str) -> Option<String>) -> Option<(&'static str, usize)> {
    let count = |name: &'static str| {
        let tasks = variable(name)?.parse().ok()?;
        (tasks > 1).then_some((name, tasks))
    };
    // A batch script has SLURM_NTASKS too, and no number of a task of a step.
    let of_step = variable("SLURM_STEP_ID").is_some() && variable("SLURM_PROCID").is_some();
    let slurm = of_step.then(|| count("SLURM_STEP_NUM_TASKS")).flatten();
    slurm.or_else(|| count("OMPI_COMM_WORLD_SIZE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn an_allocation_is_recognised_by_its_variables() {
        let job = [("SLURM_JOB_ID", "42"), ("SLURM_JOB_NODELIST", "a3-[0-3]")];
        let slurm = Allocation::Slurm {
            job: "42".into(),
            nodes: "a3-[0-3]".into(),
        };
        assert_eq!(Allocation::of(of(&job)), Some(slurm));
        let pbs = Allocation::HostFile {
            variable: "PBS_NODEFILE",
            path: "/var/spool/pbs/aux/7".into(),
        };
        assert_eq!(
            Allocation::of(of(&[("PBS_NODEFILE", "/var/spool/pbs/aux/7")])),
            Some(pbs)
        );
        for none in [&[][..], &[("SLURM_JOB_ID", "42")], &[("PBS_NODEFILE", "")]] {
            assert_eq!(Allocation::of(of(none)), None, "{none:?}");
        }
    }

    #[test]
    fn one_of_many_tasks_is_told_from_a_batch_script() {
        let batch = [("SLURM_NTASKS", "16"), ("SLURM_PROCID", "0")];
        assert_eq!(of_many_tasks(of(&batch)), None);
        let task = [
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "3"),
            ("SLURM_STEP_NUM_TASKS", "16"),
        ];
        assert_eq!(of_many_tasks(of(&task)), Some(("SLURM_STEP_NUM_TASKS", 16)));
        let one = [("OMPI_COMM_WORLD_SIZE", "1")];
        assert_eq!(of_many_tasks(of(&one)), None);
        let rank = [("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(of_many_tasks(of(&rank)), Some(("OMPI_COMM_WORLD_SIZE", 4)));
    }
}
