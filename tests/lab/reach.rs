//! Connecting to the other node: the ways that users configure, and the message for each failure.

use crate::lab::Lab;
use crate::peer::{PEER, small};
use crate::tcpxctl::{Ended, SMALL};

const CACHE: &str = "/root/.cache/tcpxctl";

/// Runs a shell line in a node, which must succeed.
fn sh(lab: &Lab, node: &str, line: &str) -> String {
    lab.exec(node, &["sh", "-ec", line])
}

/// A small run to `peer`, as a user names the peer.
fn to(lab: &Lab, peer: &str, more: &[&str]) -> Ended {
    let tool = lab.tool(
        "node0",
        &[&["run", "small.toml", "--peer", peer], more].concat(),
    );
    tool.write("small.toml", SMALL);
    tool.ended()
}

fn passes(ended: &Ended) {
    assert_eq!(ended.status.code(), Some(0), "{ended}");
}

/// Checks the exit code and the words of the message, and that no process is left.
fn fails(lab: &Lab, ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(code), "{ended}");
    ended.says(words);
    lab.is_left_clean();
}

#[test]
fn the_first_run_uploads_the_agent_and_later_runs_use_it() {
    let Some(lab) = Lab::up() else { return };
    let cached = || {
        sh(
            &lab,
            "node1",
            &format!("cd {CACHE}; stat -c '%n %a %i %s' . *"),
        )
    };
    passes(&to(&lab, PEER, &[]));
    let first = cached();
    assert_eq!(first.lines().count(), 2, "{first}");
    assert!(first.lines().all(|line| line.contains(" 700 ")), "{first}");
    passes(&to(&lab, PEER, &[]));
    assert_eq!(cached(), first, "it was sent again");
    // Another file under the agent's name is not trusted.
    sh(&lab, "node1", &format!("echo more >> {CACHE}/agent-*"));
    passes(&to(&lab, PEER, &[]));
    assert_eq!(cached().rsplit(' ').next(), first.rsplit(' ').next());
    // Old builds are removed, except the newest few.
    sh(
        &lab,
        "node1",
        &format!(
            "cd {CACHE}; for n in 1 2 3 4 5 6; do touch -d '2 days ago' agent-0.0.$n; done; rm agent-*-*"
        ),
    );
    passes(&to(&lab, PEER, &[]));
    assert!(cached().lines().count() <= 5, "{}", cached());
    lab.is_left_clean();
}

#[test]
fn an_unusable_cache_is_an_error_and_keeps_no_partial_file() {
    let Some(lab) = Lab::up() else { return };
    for (obstacle, way_out, words) in [
        (
            "mount -t tmpfs -o noexec tmpfs /root/.cache",
            "umount /root/.cache",
            "noexec",
        ),
        (
            "mount -t tmpfs -o size=1m tmpfs /root/.cache",
            "umount /root/.cache",
            "No space left",
        ),
        (
            "mount -o remount,ro /root",
            "mount -o remount,rw /root",
            "Read-only file system",
        ),
        (
            "mkdir -p -m 777 /root/.cache/tcpxctl; chmod 777 /root/.cache/tcpxctl",
            "rmdir /root/.cache/tcpxctl",
            "other users can write",
        ),
        (
            "mkdir /tmp/else; ln -s /tmp/else /root/.cache/tcpxctl",
            "rm /root/.cache/tcpxctl",
            "link",
        ),
        (
            "mkdir -p /root/.cache/tcpxctl; chown 1234 /root/.cache/tcpxctl",
            "rmdir /root/.cache/tcpxctl",
            "another user",
        ),
    ] {
        sh(&lab, "node1", &format!("mkdir -p /root/.cache; {obstacle}"));
        println!("{obstacle}");
        fails(&lab, &to(&lab, PEER, &[]), 3, &["10.0.0.226", words]);
        let left = sh(&lab, "node1", "find /root/.cache/ /tmp -type f");
        assert!(left.lines().all(|path| !path.contains(".up-")), "{left}");
        sh(
            &lab,
            "node1",
            &format!("rm -rf {CACHE}/agent-*; {way_out}; rm -rf {CACHE}"),
        );
    }
    passes(&to(&lab, PEER, &[]));
}

#[test]
fn nodes_are_found_by_every_form_of_name() {
    let Some(lab) = Lab::up() else { return };
    sh(
        &lab,
        "node0",
        "printf 'Host other\\n  HostName 10.0.0.226\\n  User root\\n  Port 22\\n' >>/root/.ssh/config",
    );
    for peer in [
        "10.0.0.226",
        "root@10.0.0.226",
        "10.0.0.226:22",
        "node1",
        "root@node1:22",
        "other",
    ] {
        println!("{peer}");
        passes(&to(&lab, peer, &[]));
    }
    let tool = lab.tool("node0", &["run", "small.toml", "--peer", "far"]);
    tool.write("small.toml", SMALL);
    std::fs::create_dir(tool.folder().join("node_ips")).unwrap();
    tool.write(
        "node_ips/mine.txt",
        "# ours\n10.0.1.25\n10.0.0.226 name=far user=root slots=8",
    );
    passes(&tool.ended());
    lab.is_left_clean();
}

#[test]
fn rsh_and_remote_bin_work_like_the_builtin_ssh() {
    let Some(lab) = Lab::up() else { return };
    passes(&to(&lab, PEER, &["--rsh", "ssh"]));
    passes(&to(&lab, PEER, &["--rsh", "ssh -o BatchMode=yes {}"]));
    passes(&to(
        &lab,
        PEER,
        &["--remote-bin", env!("CARGO_BIN_EXE_tcpxctl")],
    ));
    fails(
        &lab,
        &to(&lab, PEER, &["--remote-bin", "/no/such/tcpxctl"]),
        3,
        &["/no/such/tcpxctl"],
    );
    fails(
        &lab,
        &to(&lab, PEER, &["--rsh", "/no/such/ssh"]),
        3,
        &["/no/such/ssh"],
    );
    fails(
        &lab,
        &to(&lab, PEER, &["--rsh", "false"]),
        5,
        &["10.0.0.226"],
    );
}

/// Connecting takes longer than an agent waits for a silent coordinator, as when a user looks for a
/// passphrase.
#[test]
fn a_slow_connection_to_one_node_does_not_lose_the_other() {
    let Some(lab) = Lab::up() else { return };
    passes(&to(
        &lab,
        PEER,
        &["--rsh", "sh -c 'sleep 10; exec ssh \"$@\"' ssh {}"],
    ));
    lab.is_left_clean();
}

#[test]
fn a_login_banner_on_stdout_does_not_break_the_connection() {
    let Some(lab) = Lab::up() else { return };
    sh(
        &lab,
        "node1",
        "printf 'echo Welcome to node1; echo and more >&2\\n' >/root/.bashrc",
    );
    sh(
        &lab,
        "node1",
        "yes banner | head -n 200 >/run/banner; echo Banner /run/banner >>/run/sshd_config",
    );
    sh(
        &lab,
        "node1",
        "pid=$(cat /run/sshd.pid); touch -d yesterday /run/sshd.pid; kill -HUP $pid; \
        until [ /run/sshd.pid -nt /run/sshd_config ]; do sleep 0.05; done",
    );
    passes(&to(&lab, PEER, &[]));
    passes(&to(&lab, PEER, &[]));
    sh(
        &lab,
        "node1",
        "sed -i 's|^root:.*|root:x:0:0::/root:/usr/sbin/nologin|' /etc/passwd 2>/dev/null || \
        { sed 's|^root:.*|root:x:0:0::/root:/usr/sbin/nologin|' /etc/passwd >/tmp/passwd; cat /tmp/passwd >/etc/passwd; }",
    );
    fails(&lab, &to(&lab, PEER, &[]), 5, &["10.0.0.226"]);
}

#[test]
fn an_unknown_host_key_is_refused_until_it_is_accepted_and_a_changed_one_always() {
    let Some(lab) = Lab::up() else { return };
    sh(&lab, "node0", "mv /root/.ssh/known_hosts /root/.ssh/known");
    fails(
        &lab,
        &to(&lab, PEER, &[]),
        3,
        &["10.0.0.226", "--accept-new-host-key"],
    );
    passes(&to(&lab, PEER, &["--accept-new-host-key"]));
    passes(&to(&lab, PEER, &[]));
    assert!(sh(&lab, "node0", "cat /root/.ssh/known_hosts").contains("ssh-ed25519"));
    sh(
        &lab,
        "node0",
        "cd /root/.ssh; sed -n 's/^node0,10.0.1.25/node1,10.0.0.226/p' known >known_hosts",
    );
    for more in [&[][..], &["--accept-new-host-key"]] {
        fails(&lab, &to(&lab, PEER, more), 3, &["10.0.0.226", "changed"]);
    }
}

#[test]
fn a_rejected_key_is_reported() {
    let Some(lab) = Lab::up() else { return };
    sh(
        &lab,
        "node0",
        "cd /root/.ssh; mv id_ed25519 mine; ssh-keygen -q -t ed25519 -N '' -f other",
    );
    fails(
        &lab,
        &to(&lab, PEER, &["--identity", "/root/.ssh/other"]),
        3,
        &["10.0.0.226", "/root/.ssh/other"],
    );
    sh(
        &lab,
        "node0",
        "cd /root/.ssh; mv mine id_ed25519; ssh-keygen -q -p -P '' -N secret -f id_ed25519",
    );
    fails(&lab, &to(&lab, PEER, &[]), 3, &["10.0.0.226", "passphrase"]);
    sh(&lab, "node0", "rm /root/.ssh/id_ed25519 /root/.ssh/other");
    fails(&lab, &to(&lab, PEER, &[]), 3, &["10.0.0.226"]);
}

#[test]
fn an_unreachable_node_is_reported_with_its_reason() {
    let Some(lab) = Lab::up() else { return };
    fails(
        &lab,
        &to(&lab, "10.0.0.226:9", &[]),
        5,
        &["10.0.0.226:9", "refused"],
    );
    fails(
        &lab,
        &to(&lab, "no-such-host.invalid", &[]),
        2,
        &["no-such-host.invalid"],
    );
    fails(&lab, &to(&lab, "node1:0", &[]), 2, &["node1:0"]);
    lab.hurt("node1", "eth0", "blackhole");
    let ended = to(&lab, PEER, &[]);
    assert!(ended.took < std::time::Duration::from_secs(30), "{ended}");
    assert_eq!(ended.status.code(), Some(5), "{ended}");
    ended.says(&["10.0.0.226"]);
}

#[test]
fn an_invalid_list_of_nodes_is_refused_with_its_line() {
    let Some(lab) = Lab::up() else { return };
    for (list, words) in [
        ("10.0.1.25\nnode one\n", &["mine.txt", "2"][..]),
        (
            "10.0.1.25\n10.0.0.226 port=many\n",
            &["mine.txt", "2", "port"],
        ),
        ("10.0.0.226\n10.0.0.226\n", &["mine.txt", "10.0.0.226"]),
    ] {
        let tool = lab.tool("node0", &["run", "small.toml", "--peer", PEER]);
        tool.write("small.toml", SMALL);
        std::fs::create_dir(tool.folder().join("node_ips")).unwrap();
        tool.write("node_ips/mine.txt", list);
        tool.ends_with(2).says(words);
    }
}

#[test]
fn the_own_node_as_peer_is_accepted_for_host_memory_only() {
    let Some(lab) = Lab::up() else { return };
    passes(&to(&lab, "10.0.1.25", &["--accept-new-host-key"]));
    let device = small(&lab, "node1", &[])
        .strict("")
        .set(&["transfer.memory=\"device\""])
        .ended();
    fails(&lab, &device, 3, &["same machine", "device memory"]);
}
