//! Getting to the other node: what works as users have it, and what each obstacle
//! says.

use crate::lab::Lab;
use crate::peer::{PEER, small};
use crate::tcpxctl::{Ended, SMALL};

const CACHE: &str = "/root/.cache/tcpxctl";

/// A shell line in a node, which must do well.
fn sh(lab: &Lab, node: &str, line: &str) -> String {
    lab.exec(node, &["sh", "-ec", line])
}

/// A small run to `peer`, given as users give it.
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

/// It ends with `code`, says these words, and leaves nothing.
fn fails(lab: &Lab, ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(code), "{ended}");
    ended.says(words);
    lab.is_left_clean();
}

#[test]
fn the_first_run_takes_the_agent_there_and_the_next_ones_use_it() {
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
    // Something else under its name is not trusted for its name.
    sh(&lab, "node1", &format!("echo more >> {CACHE}/agent-*"));
    passes(&to(&lab, PEER, &[]));
    assert_eq!(cached().rsplit(' ').next(), first.rsplit(' ').next());
    // Builds of the past go, but for a few.
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
fn a_cache_that_cannot_be_used_says_why_and_keeps_no_half() {
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
            "others can write",
        ),
        (
            "mkdir /tmp/else; ln -s /tmp/else /root/.cache/tcpxctl",
            "rm /root/.cache/tcpxctl",
            "link",
        ),
        (
            "mkdir -p /root/.cache/tcpxctl; chown 1234 /root/.cache/tcpxctl",
            "rmdir /root/.cache/tcpxctl",
            "someone else",
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
fn nodes_are_named_as_users_name_them() {
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
fn other_ways_there_do_as_well_as_ssh_of_our_own() {
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

/// Longer than an agent waits for a coordinator that is silent, as a person does who looks for a passphrase.
#[test]
fn a_node_that_takes_long_to_reach_does_not_lose_the_other() {
    let Some(lab) = Lab::up() else { return };
    passes(&to(
        &lab,
        PEER,
        &["--rsh", "sh -c 'sleep 10; exec ssh \"$@\"' ssh {}"],
    ));
    lab.is_left_clean();
}

#[test]
fn a_node_that_talks_before_it_listens_is_still_a_node() {
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
fn a_key_that_does_not_open_the_door_says_so() {
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
fn a_node_that_is_not_there_says_which_kind_of_not_there() {
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
fn lists_of_nodes_that_cannot_be_meant_are_refused_with_the_line() {
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
fn a_peer_that_is_oneself_will_do_for_host_memory_only() {
    let Some(lab) = Lab::up() else { return };
    passes(&to(&lab, "10.0.1.25", &["--accept-new-host-key"]));
    let device = small(&lab, "node1", &[])
        .strict("")
        .set(&["transfer.memory=\"device\""])
        .ended();
    fails(&lab, &device, 3, &["same machine", "device memory"]);
}
