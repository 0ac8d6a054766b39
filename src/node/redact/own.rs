//! Folders and variables that a site named itself, by the place where they stand: in a path that no system has, and
//! where a variable of no known program is set or read. Their names may consist of ordinary words.
//!
//! Not here: the values of variables, and folders of users and projects in formats that are known.
#![forbid(unsafe_code)]

use super::chosen::{self, LETTERS_MIN, is_joined};
use super::words;
use std::ops::Range;

/// First folders of paths that a system, a package or a container image has.
const SYSTEM: [&str; 26] = [
    "afs",
    "bin",
    "boot",
    "builds",
    "cvmfs",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "nix",
    "opt",
    "proc",
    "pytorch",
    "root",
    "rapids",
    "run",
    "sbin",
    "snap",
    "spack",
    "src",
    "sys",
    "third_party",
    "tmp",
    "usr",
    "var",
];
/// Folders of public sources and programs.
const PUBLIC: [&str; 5] = [
    "nccl-tests",
    "nccl_tests",
    "rccl-tests",
    "third_party",
    "third-party",
];
/// Folders of a training, with a number behind them.
const NUMBERED: [&str; 5] = ["step", "global_step", "epoch", "iter", "rank"];
/// Folders that have a folder for each user.
const HOMES: [&str; 2] = ["home", "Users"];
/// Folders of programs that users have in theirs.
const OF_USERS: [&str; 9] = [
    "anaconda3",
    "conda",
    "mambaforge",
    "micromamba",
    "miniconda3",
    "miniforge3",
    "openmpi",
    "venv",
    "virtualenvs",
];
/// End of the names of the programs of nccl-tests.
const BENCHMARK: &str = "_perf";

/// Beginnings of the names of variables that programs read or set.
const PROGRAMS: &str = "nccl net tpcx tcpx tcpxsoft uccl rccl cuda cudnn cublas nvidia nvshmem nvte nvlink torch \
    torchelastic torchinductor pytorch triton gloo slurm sbatch srun ompi omp mkl openblas mpi mpich mv2 pmi pmix prte ucx \
    ucs uct ucp fi ofi rdma ibv ib mlx5 hsa hip rocm rocr gpu gpus master world local node rank group role ld lc lang python \
    pip conda virtual hf huggingface transformers tokenizers wandb ray vllm sglang nixl xla jax tf tpu libtpu tensorflow ds \
    deepspeed megatron kubernetes job pod container docker aws efa google gce gke azure horovod hvd lsf pbs pjm sge malloc \
    glibc asan tsan ubsan rust cargo cmake debug log http https no update recv";

/// Folders of storage, which the names of those who use it follow.
const STORAGE: [&str; 23] = [
    "beegfs", "data", "datasets", "disk", "disks", "efs", "export", "fsx", "gpfs", "home",
    "lustre", "mnt", "nfs", "projects", "raid", "scratch", "share", "shared", "storage", "users",
    "Users", "volumes", "weka",
];
/// Folders that tell nothing of whom they belong to.
const COMMON: [&str; 39] = [
    "apps",
    "build",
    "cache",
    "checkpoint",
    "checkpoints",
    "ckpt",
    "ckpts",
    "code",
    "conf",
    "config",
    "configs",
    "docs",
    "dist",
    "examples",
    "generate",
    "health",
    "input",
    "inputs",
    "install",
    "kubernetes",
    "libs",
    "local",
    "logs",
    "metrics",
    "model",
    "models",
    "output",
    "outputs",
    "results",
    "runs",
    "scripts",
    "test",
    "tests",
    "torch",
    "train",
    "training",
    "work",
    "workdir",
    "workspace",
];

/// The places of names of folders of the site, in order.
pub(super) fn folders(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    text.match_indices('/').filter_map(move |(slash, _)| {
        let begin = slash + 1;
        let name = text[begin..].split(|letter| !is_of_name(letter)).next()?;
        let end = begin + name.len();
        let has_lower = name.contains(|letter: char| letter.is_ascii_lowercase());
        let is_chosen = name.len() >= LETTERS_MIN && has_lower && !words::is_replaced(name);
        let before = chosen::before(text, begin);
        (is_chosen && is_folder(before, &text[end..], name)).then_some(begin..end)
    })
}

/// Whether a known word is the name of a folder of the site.
pub(super) fn is_folder(before: &str, behind: &str, name: &str) -> bool {
    let ends_path = |letter: char| letter.is_whitespace() || "\"'`=([,:<>|;".contains(letter);
    let path = before.rsplit(ends_path).next().unwrap_or_default();
    let number = |letter: char| letter.is_ascii_digit() || "-_".contains(letter);
    let is_numbered = NUMBERED.contains(&name.trim_end_matches(number));
    let is_of_programs = SYSTEM.contains(&name)
        || PUBLIC.contains(&name)
        || name.ends_with(BENCHMARK)
        || is_numbered;
    if !path.ends_with('/') || behind.starts_with(['.', '(']) || is_of_programs {
        return false;
    }
    // A project of a run, and whose it is.
    if let Some(page) = path.strip_prefix("//wandb.ai/") {
        return page.split('/').count() < 3 && !["site", "authorize", "home"].contains(&name);
    }
    let mut parents = path.split('/').skip(1).filter(|parent| !parent.is_empty());
    let first = parents.clone().next();
    let is_own = path == "/" || path.starts_with('/') && !path.starts_with("//") && first.is_some();
    if !is_own || first.is_some_and(|first| SYSTEM.contains(&first)) || path.contains("-packages/")
    {
        return false;
    }
    let is_common = |name: &str| STORAGE.contains(&name) || COMMON.contains(&name);
    let is_of_user = first.is_some_and(|first| HOMES.contains(&first))
        && parents.clone().count() == 2
        && !OF_USERS.contains(&name)
        && !name.split('-').take(1).any(is_of_program);
    let is_of_storage =
        first.is_none_or(|first| STORAGE.contains(&first)) && parents.all(is_common);
    is_joined(name)
        || (is_of_storage || is_of_user)
            && name.len() >= LETTERS_MIN
            && !is_common(name)
            && (first.is_some() || behind.starts_with('/'))
}

pub(super) fn is_variable(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.contains('_') && name.bytes().all(is_of_name)
}

/// Whether a variable of no known program is set or read there: `X=1`, `$X`, `export X`, `X set by environment`.
pub(super) fn is_variable_of_site(before: &str, behind: &str, name: &str) -> bool {
    let is_apart = before.is_empty()
        || before.ends_with(|letter: char| letter.is_whitespace() || "\"'`;(".contains(letter));
    let is_set = behind.starts_with('=') && !behind.starts_with("==");
    let begins = ["$", "${", "export ", "unset "];
    let is_place = is_apart && (is_set || behind.starts_with(" set by "))
        || begins.iter().any(|begin| before.ends_with(begin));
    is_place && !is_of_program(name)
}

fn is_of_program(name: &str) -> bool {
    let first = name
        .split('_')
        .find(|part| !part.is_empty())
        .unwrap_or_default();
    PROGRAMS
        .split_ascii_whitespace()
        .any(|program| program.eq_ignore_ascii_case(first))
}

#[cfg(test)]
mod tests {
    use crate::redact::Redactor;

    fn left(text: &str) -> String {
        Redactor::default().known_words(text)
    }

    #[test]
    fn folders_and_variables_of_ordinary_words_are_replaced() {
        for (text, name) in [
            (
                "could not open /mnt/train-data/network_group_2/file",
                "train-data",
            ),
            (
                "could not open /mnt/train-data/network_group_2/file",
                "network_group_2",
            ),
            ("open /data/harbor/train.bin", "harbor"),
            ("/mnt/disks/harbor/x", "harbor"),
            ("File \"/home/user0/harbor/train.py\"", "harbor"),
            ("--working-dir /harbor/x", "harbor"),
            ("https://wandb.ai/harbor/falcon", "harbor"),
            ("https://wandb.ai/harbor/falcon", "falcon"),
            ("BLUE_DATA_SIZE=7", "BLUE_DATA_SIZE"),
            ("export DATA_MODEL_PATH", "DATA_MODEL_PATH"),
            (
                "DATA_MODEL_TOKEN set by environment to 1",
                "DATA_MODEL_TOKEN",
            ),
        ] {
            let left = left(text);
            assert!(!left.contains(name), "{left}");
        }
    }

    #[test]
    fn folders_are_replaced_in_texts_of_this_program_too() {
        for (text, expected) in [
            (
                "plugin /harbor/main/x.so of /harbor/main/other-build/tcpxctl",
                "plugin /folder0/main/x.so of /folder0/main/folder1/tcpxctl",
            ),
            (
                "/data/harbor/x.so: not found",
                "/data/folder0/x.so: not found",
            ),
            ("/folder0/main/x.so", "/folder0/main/x.so"),
            (
                "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
                "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
            ),
            (
                "/home/kubernetes/bin/nvidia/lib64/libnccl-net.so",
                "/home/kubernetes/bin/nvidia/lib64/libnccl-net.so",
            ),
            (
                "sysfs /sys/class/net, tx/rx, GET /metrics and \u{b5}/s",
                "sysfs /sys/class/net, tx/rx, GET /metrics and \u{b5}/s",
            ),
        ] {
            let mut redactor = Redactor::default();
            assert_eq!(redactor.redact(text), expected);
            let again = redactor.redact_foreign(expected);
            assert_eq!(again, expected);
        }
        let document = r#"{"path":"/harbor/main/x.so"}"#;
        let left = Redactor::default().redact(document);
        assert_eq!(left, r#"{"path":"/folder0/main/x.so"}"#);
    }

    #[test]
    fn a_space_beyond_ascii_ends_a_path() {
        let left = left("a\u{85}/mnt/train-data/network_group_2/file");
        assert!(!left.contains("train-data"), "{left}");
    }

    #[test]
    fn those_of_systems_and_programs_stay() {
        for text in [
            "NCCL_SOCKET_IFNAME=eth0 CUDA_VISIBLE_DEVICES set by environment to 0,1",
            "/opt/conda/lib/python3.10/site-packages/torch/distributed/c10d_logger.py",
            "/work/third_party/gloo/gloo/transport/tcp/pair.cc:534",
            "/workspace/nccl-tests/build/all_reduce_perf -b 8",
            "/home/user0/miniconda3/lib/python3.10/ssl.py /home/user0/vllm/vllm/worker.py",
            "/home/user0/Megatron-LM/megatron/training.py /Users/user0/train.py /home/user0/models/",
            "/scratch/checkpoints/train /v1/chat /data https://wandb.ai/site",
            "transport/net_ib.cc mlx5_0 x86_64 IBV_WC_RETRY_EXC_ERR CUDA_ERROR_LAUNCH_FAILED",
        ] {
            assert_eq!(left(text), text);
        }
    }
}
