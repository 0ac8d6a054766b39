//! Keys in every format of ssh-keygen: user keys, with a passphrase and in an agent, and host
//! keys. libssh2 needs its crypto library for these.

use crate::lab::Lab;
use crate::peer::PEER;

const TOOL: &str = env!("CARGO_BIN_EXE_tcpxctl");
const KINDS: [&str; 5] = [
    "ed25519",
    "ecdsa -b 256",
    "ecdsa -b 384",
    "ecdsa -b 521",
    "rsa -b 3072",
];
/// File formats of ssh-keygen: OpenSSH's and two of OpenSSL's. ssh-keygen writes ed25519 keys in
/// OpenSSH's format whatever format is requested.
const FORMATS: [&str; 3] = ["RFC4716", "PEM", "PKCS8"];

/// A lab without a user key, where node1 already has the agent.
fn lab() -> Option<Lab> {
    let lab = Lab::up()?;
    sh(
        &lab,
        "node0",
        &format!("{TOOL} discover --peer {PEER} >/dev/null; rm /root/.ssh/id_ed25519*"),
    );
    Some(lab)
}

fn sh(lab: &Lab, node: &str, line: &str) -> String {
    lab.exec(node, &["sh", "-ec", line])
}

/// Makes a key that node1 accepts for logins.
fn key(lab: &Lab, kind: &str, format: &str, passphrase: &str) {
    let made = format!(
        "rm -f key key.pub; ssh-keygen -q -t {kind} -m {format} -N '{passphrase}' -f key; cat key.pub"
    );
    let public = sh(lab, "node0", &format!("cd /root/.ssh; {made}"));
    sh(
        lab,
        "node1",
        &format!("echo '{}' >/root/.ssh/authorized_keys", public.trim()),
    );
}

fn each_key(look: impl Fn(&str, &str)) {
    for kind in KINDS {
        for format in FORMATS.iter().take(if kind == "ed25519" { 1 } else { 3 }) {
            println!("{kind} as {format}");
            look(kind, format);
        }
    }
}

#[test]
fn every_kind_of_key_logs_in() {
    let Some(lab) = lab() else { return };
    each_key(|kind, format| {
        key(&lab, kind, format, "");
        sh(
            &lab,
            "node0",
            &format!("{TOOL} discover --peer {PEER} --identity /root/.ssh/key"),
        );
    });
    lab.is_left_clean();
}

#[test]
fn every_kind_of_key_is_unlocked_by_its_passphrase() {
    let Some(lab) = lab() else { return };
    // `script` provides a terminal for the passphrase prompt.
    let ask =
        format!("script -qec '{TOOL} discover --peer {PEER} --identity /root/.ssh/key' /dev/null");
    each_key(|kind, format| {
        key(&lab, kind, format, "a secret");
        let said = sh(
            &lab,
            "node0",
            &format!("printf 'wrong\\na secret\\n' | {ask}"),
        );
        assert_eq!(said.matches("Passphrase of ").count(), 2, "{said}");
    });
    lab.is_left_clean();
}

#[test]
fn every_kind_of_key_is_used_through_an_agent() {
    let Some(lab) = lab() else { return };
    for kind in KINDS {
        println!("{kind}");
        key(&lab, kind, "RFC4716", "");
        sh(
            &lab,
            "node0",
            &format!(
                "ssh-agent sh -ec 'cd /root/.ssh; ssh-add -q key; rm key; {TOOL} discover --peer {PEER}'"
            ),
        );
    }
    lab.is_left_clean();
}

/// Replaces the host key of node1.
fn new_host_key(lab: &Lab, kind: &str) {
    sh(
        lab,
        "node1",
        &format!(
            "rm /run/sshd_host_key*; ssh-keygen -q -t {kind} -N '' -f /run/sshd_host_key; \
            pid=$(cat /run/sshd.pid); touch -d yesterday /run/sshd.pid; kill -HUP $pid; \
            until [ /run/sshd.pid -nt /run/sshd_host_key ]; do sleep 0.05; done"
        ),
    );
}

#[test]
fn every_kind_of_host_key_is_recognized_and_a_change_is_detected() {
    let Some(lab) = Lab::up() else { return };
    for kind in KINDS {
        println!("{kind}");
        new_host_key(&lab, kind);
        sh(&lab, "node0", "rm /root/.ssh/known_hosts");
        let accepted = ["discover", "--peer", PEER, "--accept-new-host-key"];
        for arguments in [&accepted[..3], &accepted, &accepted[..3]] {
            let ended = lab.run("node0", arguments);
            let is_first =
                arguments.len() == 3 && !lab.path("node0", "/root/.ssh/known_hosts").exists();
            assert_eq!(
                ended.status.code(),
                Some(if is_first { 3 } else { 0 }),
                "{kind}: {ended}"
            );
        }
        new_host_key(&lab, kind);
        let ended = lab.run("node0", &accepted);
        assert_eq!(ended.status.code(), Some(3), "{kind}: {ended}");
        ended.says(&["CHANGED"]);
    }
    lab.is_left_clean();
}
