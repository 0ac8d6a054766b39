//! Keys as ssh-keygen makes them: to log in with, locked, held by an agent, and
//! shown by the other node. They are what libssh2 needs its crypto library for.

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
/// Files as ssh-keygen writes them: OpenSSH's own, and two of OpenSSL's. There is no
/// second one for ed25519, for which it writes the first under every name.
const FORMATS: [&str; 3] = ["RFC4716", "PEM", "PKCS8"];

/// A lab whose user has no key yet, for agents that node1 has already.
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

/// Makes a key with which one may log in to node1.
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
    // `script` gives it a terminal to ask at.
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

/// Gives node1 another host key.
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
fn every_kind_of_host_key_is_known_again_and_noticed_when_it_changes() {
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
