//! What `scripts/fleet` ships: manifests have the keys and types of the Kubernetes API and arguments that
//! tcpxctl takes, and scripts start tcpxctl as they say.

use crate::tcpxctl::Tool;
use serde::Deserialize;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fleet(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("scripts/fleet")
        .join(file)
}

/// The parts of the API's types that the manifests use: batch/v1, apps/v1, v1 and
/// jobset.x-k8s.io/v1alpha2. After a key: ' a string, # an integer, ? a truth, % texts or numbers by name,
/// :T an object, *T a list of objects, " a list of strings. A key with ! is required.
const TYPES: [(&str, &str); 26] = [
    (
        "Secret",
        "!apiVersion' !kind' !metadata:Meta type' stringData%",
    ),
    (
        "Service",
        "!apiVersion' !kind' !metadata:Meta !spec:ServiceSpec",
    ),
    ("Job", "!apiVersion' !kind' !metadata:Meta !spec:JobSpec"),
    (
        "DaemonSet",
        "!apiVersion' !kind' !metadata:Meta !spec:DaemonSetSpec",
    ),
    (
        "JobSet",
        "!apiVersion' !kind' !metadata:Meta !spec:JobSetSpec",
    ),
    ("Meta", "name' labels%"),
    (
        "ServiceSpec",
        "clusterIP' publishNotReadyAddresses? selector%",
    ),
    (
        "JobSpec",
        "completions# parallelism# completionMode' backoffLimit# activeDeadlineSeconds# !template:Template",
    ),
    ("DaemonSetSpec", "!selector:Selector !template:Template"),
    (
        "JobSetSpec",
        "network:Network successPolicy:Policy !replicatedJobs*ReplicatedJob",
    ),
    ("Network", "enableDNSHostnames?"),
    ("Policy", "!operator' targetReplicatedJobs\""),
    ("ReplicatedJob", "!name' replicas# !template:JobTemplate"),
    ("JobTemplate", "!spec:JobSpec"),
    ("Selector", "matchLabels%"),
    ("Template", "metadata:Meta !spec:Pod"),
    (
        "Pod",
        "hostname' subdomain' hostNetwork? dnsPolicy' restartPolicy' terminationGracePeriodSeconds# nodeSelector% \
         tolerations*Toleration affinity:Affinity initContainers*Container !containers*Container volumes*Volume",
    ),
    ("Toleration", "key' operator' effect'"),
    ("Affinity", "podAntiAffinity:AntiAffinity"),
    (
        "AntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution*AffinityTerm",
    ),
    ("AffinityTerm", "labelSelector:Selector !topologyKey'"),
    (
        "Container",
        "!name' image' args\" env*Variable ports*Port restartPolicy' resources:Resources volumeMounts*Mount",
    ),
    ("Resources", "limits% requests%"),
    ("Mount", "!name' !mountPath' readOnly?"),
    ("Variable", "!name' value' valueFrom:Source"),
    ("Port", "!containerPort#"),
];
/// Types with one kind of value each.
const MORE_TYPES: [(&str, &str); 5] = [
    ("Source", "fieldRef:FieldRef"),
    ("FieldRef", "!fieldPath'"),
    ("Volume", "!name' secret:SecretVolume emptyDir:EmptyDir"),
    ("SecretVolume", "!secretName' defaultMode#"),
    ("EmptyDir", "medium'"),
];

/// What is wrong with a value that should be of a type, at this place.
fn wrong(value: &Value, of: &str, at: &str) -> Vec<String> {
    let mut types = TYPES.iter().chain(&MORE_TYPES);
    let (_, keys) = types
        .find(|(name, _)| *name == of)
        .unwrap_or_else(|| panic!("no type {of}"));
    let Some(object) = value.as_object() else {
        return vec![format!("{at} is no {of}")];
    };
    let split = |key: &'static str| {
        let key = key.strip_prefix('!').unwrap_or(key);
        let name = key
            .find(|c: char| !c.is_ascii_alphanumeric())
            .expect("a mark");
        (&key[..name], &key[name..=name], &key[name + 1..])
    };
    let known: Vec<_> = keys.split_whitespace().map(split).collect();
    let required = keys.split_whitespace().filter(|key| key.starts_with('!'));
    let missing = required
        .map(|key| split(key).0)
        .filter(|name| !object.contains_key(*name));
    let mut found: Vec<String> = missing
        .map(|name| format!("{at}.{name} is missing"))
        .collect();
    for (name, value) in object {
        let at = format!("{at}.{name}");
        let Some((_, mark, of)) = known.iter().find(|(known, ..)| known == name) else {
            found.push(format!("{at} is no key of {of}"));
            continue;
        };
        let scalar = |value: &Value| value.is_string() || value.is_number();
        let is_right = match *mark {
            "'" => value.is_string(),
            "#" => value.is_u64(),
            "?" => value.is_boolean(),
            "%" => value
                .as_object()
                .is_some_and(|all| all.values().all(scalar)),
            "\"" => value
                .as_array()
                .is_some_and(|all| all.iter().all(Value::is_string)),
            ":" => {
                found.extend(wrong(value, of, &at));
                true
            }
            _ => {
                let all = value.as_array().into_iter().flatten();
                found.extend(all.flat_map(|one| wrong(one, of, &at)));
                value.is_array()
            }
        };
        if !is_right {
            found.push(format!("{at} has another type"));
        }
    }
    found
}

fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents
        .map(|one| Value::deserialize(one).unwrap())
        .collect()
}

fn manifests() -> Vec<PathBuf> {
    let files = std::fs::read_dir(fleet("")).unwrap().flatten();
    let files = files.map(|file| file.path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect()
}

/// Every value of a key, at any depth.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(key));
            object.values().for_each(|inner| all(inner, key, found));
        }
        Value::Array(array) => array.iter().for_each(|inner| all(inner, key, found)),
        _ => {}
    }
}

#[test]
fn manifests_have_the_types_of_the_api() {
    let versions = [
        ("Secret", "v1"),
        ("Service", "v1"),
        ("Job", "batch/v1"),
        ("DaemonSet", "apps/v1"),
        ("JobSet", "jobset.x-k8s.io/v1alpha2"),
    ];
    let mut kinds = Vec::new();
    for file in manifests() {
        for document in documents(&file) {
            let kind = document["kind"].as_str().unwrap().to_owned();
            let version = versions
                .iter()
                .find(|(name, _)| *name == kind)
                .map(|(_, version)| *version);
            assert_eq!(
                document["apiVersion"].as_str(),
                version,
                "{}",
                file.display()
            );
            assert_eq!(
                wrong(&document, &kind, &kind),
                [""; 0],
                "{}",
                file.display()
            );
            kinds.push(kind);
        }
    }
    for (kind, _) in versions {
        assert!(kinds.iter().any(|one| one == kind), "no {kind}");
    }
}

#[test]
fn a_key_that_is_misspelled_missing_or_of_another_type_is_found() {
    let text = std::fs::read_to_string(fleet("daemonset.yaml")).unwrap();
    for (from, to, says) in [
        (
            "hostNetwork: true",
            "hostnetwork: true",
            "hostnetwork is no key of Pod",
        ),
        (
            "hostNetwork: true",
            "hostNetwork: yes please",
            "hostNetwork has another type",
        ),
        (
            "mountPath: /dev/shm",
            "path: /dev/shm",
            "mountPath is missing",
        ),
    ] {
        let spoiled = serde_yaml_ng::from_str(&text.replace(from, to)).unwrap();
        let found = wrong(&spoiled, "DaemonSet", "");
        assert!(
            found.iter().any(|one| one.ends_with(says)),
            "{says}: {found:?}"
        );
    }
}

#[test]
fn containers_have_arguments_that_tcpxctl_takes_and_volumes_that_exist() {
    let mut checked = 0;
    for document in manifests().iter().flat_map(|file| documents(file)) {
        let mut pods = Vec::new();
        all(&document, "template", &mut pods);
        for pod in pods
            .iter()
            .map(|template| &template["spec"])
            .filter(|pod| pod["containers"].is_array())
        {
            let lists = [&pod["initContainers"], &pod["containers"]];
            let containers = lists.into_iter().filter_map(Value::as_array).flatten();
            for container in containers.filter(|one| one["image"] == "localhost/tcpxctl:latest") {
                let words = container["args"].as_array().unwrap().iter();
                let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
                let line = ["tcpxctl"].into_iter().chain(words.iter().copied());
                let parsed = tcpxctl::cli::command().try_get_matches_from(line);
                assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
                checked += 1;
                let volumes = pod["volumes"].as_array().unwrap();
                for mount in container["volumeMounts"].as_array().unwrap() {
                    let volume = volumes
                        .iter()
                        .find(|volume| volume["name"] == mount["name"]);
                    assert!(volume.is_some(), "{mount}");
                }
                let is_private = |volume: &&Value| volume["secret"]["defaultMode"] == 0o400;
                assert_eq!(
                    volumes.iter().filter(is_private).count(),
                    1,
                    "the secret is read by its user alone"
                );
            }
        }
    }
    assert!(checked >= 5, "{checked}");
}

/// A stand-in for tcpxctl that keeps its arguments and ends with `code`.
fn stand_in(folder: &Path, code: i32) -> PathBuf {
    let path = folder.join("tcpxctl");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >'{}'\nexit {code}\n",
        folder.join("argv").display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs a script of `scripts/fleet`; returns its exit code and what it started.
fn script(name: &str, code: i32, variables: &[(&str, &str)]) -> (Option<i32>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(fleet(name));
    command
        .env("TCPXCTL", stand_in(folder.path(), code))
        .envs(variables.iter().copied());
    let ended = command.current_dir(folder.path()).output().unwrap();
    let argv = std::fs::read_to_string(folder.path().join("argv")).unwrap_or_default();
    let argv: Vec<String> = argv.lines().map(str::to_owned).collect();
    if !argv.is_empty() {
        let line = ["tcpxctl".to_owned()]
            .into_iter()
            .chain(argv.iter().cloned());
        let parsed = tcpxctl::cli::command().try_get_matches_from(line);
        assert!(parsed.is_ok(), "{argv:?}: {}", parsed.unwrap_err());
    }
    (ended.status.code(), argv)
}

#[test]
fn the_prolog_refuses_nodes_that_fail_and_lets_a_job_start_if_the_gate_does_not_work() {
    let job = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NUM_NODES", "2"),
        ("SLURM_JOB_NODELIST", "a3-[0-1]"),
    ];
    for (code, ends) in [
        (0, 0),
        (1, 1),
        (4, 1),
        (5, 1),
        (6, 1),
        (130, 1),
        (2, 0),
        (3, 0),
    ] {
        let (ended, argv) = script("prolog-slurmctld", code, &job);
        assert_eq!(ended, Some(ends), "{code}");
        assert!(argv.contains(&"a3-[0-1]".to_owned()), "{argv:?}");
    }
    let single = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "1")];
    assert_eq!(
        script("prolog-slurmctld", 1, &single),
        (Some(0), Vec::new())
    );
}

#[test]
fn the_batch_script_starts_one_run_by_srun() {
    let (ended, argv) = script("mesh.sbatch", 0, &[("SLURM_JOB_ID", "7")]);
    assert_eq!(ended, Some(0));
    assert_eq!(argv[..4], ["run", "mesh", "--launcher", "srun"]);
}

#[test]
fn a_gate_has_an_exit_code_and_a_time_bound() {
    let set = [
        "transfer.total=256KiB",
        "transfer.iterations=2",
        "plugin.name=builtin",
    ];
    Tool::new(&["run", "1conn", "--expect", "min_gb_per_s=100000"])
        .set(&set)
        .ends_with(1)
        .says(&["expect.min_gb_per_s is 100000"]);
    let ended = Tool::new(&["run", "1conn", "--within", "2s"])
        .set(&["transfer.iterations=1000000", "plugin.name=builtin"])
        .ends_with(130);
    ended.says(&["longer than --within 2s"]);
    Tool::new(&["run", "no-such-scenario"]).ends_with(2);
}
