//! Evidence of what no software on one machine brings about, or not reliably:
//! counters, lines, sockets and facts written down.

use super::*;
use tcpx_logs::Severity as LineSeverity;
use tcpx_node::{Fact, Host, NicNow, TcpFlow, TcpSocket};
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{Lane, NodeId, PairId};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::record::{ChannelNow, Frame};
use tcpx_run_model::scenario::{Processes, Scenario};
use tcpx_words::error::Outcome;
use tcpx_words::progress::Policy;
use tcpx_words::side::Side;

type Make = fn() -> Evidence;

/// Each with the condition that is to come first.
pub(super) const ALL: &[(&str, Make)] = &[
    ("sender-silent", sender_silent),
    ("receiver-silent", receiver_silent),
    ("window-full-only-progress", window_full_only),
    ("tx-completions-missing", completions_missing),
    ("chunk-size-disagreement", chunk_sizes),
    ("settings-differ", settings_differ),
    ("accept-budget-too-small", accept_budget),
    ("wrong-gpu-current", wrong_gpu),
    ("plugin-exit", plugin_exit),
    ("process-killed", killed_inside_a_call),
    ("premature-close", reset_in_flight),
    ("connection-reset", reset_only),
    ("control-lost", control_lost),
    ("network-loss", network_loss),
    ("link-down", link_down),
    ("rail-carries-nothing", one_rail_of_two),
    ("nic-far-from-gpu", far_nic),
    ("same-host", same_host),
    ("rate-above-line-rate", too_fast),
    ("slow-because-of-logging", chatty),
    ("stalled", nothing_to_see),
];

#[test]
fn each_has_its_condition_first() {
    for (expected, make) in ALL {
        let findings = diagnose(&make());
        assert_eq!(names(&findings).first(), Some(expected), "{findings:#?}");
    }
}

#[test]
fn an_end_whose_plugin_says_try_again_for_ever_is_told_to_look_at_the_plugin() {
    let put_off = |side: Side, posted, meanwhile| {
        let mut one = channel(side, [posted; 3], 9000);
        one.now.null_requests = 21_995;
        one.watched = Some(Watched {
            ms: 3000.0,
            null_requests: meanwhile,
            ..Watched::default()
        });
        one
    };
    let (send, recv) = (
        channel(Side::Send, [40, 28, 28], 4000),
        channel(Side::Recv, [44, 28, 28], 4000),
    );
    for (evidence, condition, node, call, is_put_off) in [
        (
            pair(put_off(Side::Send, 28, 9000), recv.clone()),
            "sender-silent",
            "local",
            "isend",
            true,
        ),
        (
            pair(put_off(Side::Send, 0, 0), recv.clone()),
            "sender-silent",
            "local",
            "isend",
            true,
        ),
        (
            pair(send, put_off(Side::Recv, 28, 9000)),
            "receiver-silent",
            "peer",
            "irecv",
            true,
        ),
        // It was told so while it connected, and then its program stopped posting.
        (
            pair(put_off(Side::Send, 28, 0), recv),
            "sender-silent",
            "local",
            "isend",
            false,
        ),
    ] {
        let found = &diagnose(&evidence)[0];
        assert_eq!(
            (found.condition.as_str(), found.place()),
            (condition, Some(node)),
            "{found:#?}"
        );
        let why = format!("{call} returned 0 and no request 21995 times, with 0 in flight");
        assert_eq!(
            found.because.iter().any(|fact| fact.contains(&why)),
            is_put_off,
            "{found:#?}"
        );
        let next_step = found.next_step.as_deref().unwrap_or_default();
        assert_eq!(
            next_step.contains(&format!("look at the plugin at {node}")),
            is_put_off,
            "{next_step}"
        );
    }
}

#[test]
fn a_slow_pair_that_moves_is_silent() {
    let mut evidence = pair(
        channel(Side::Send, [40, 28, 28], 900),
        channel(Side::Recv, [44, 28, 28], 900),
    );
    assert_eq!(names(&diagnose(&evidence)), Vec::<&str>::new());
    // Starved of its processor for longer than a stall takes, and then it passed.
    evidence.outcome = Some(Outcome::Passed);
    for node in &mut evidence.nodes {
        node.channels[0].now.quiet_ms = 9000;
        node.channels[0].watched = Some(Watched {
            ms: 3000.0,
            tests: 0,
            in_one_call: true,
            ..Watched::default()
        });
    }
    assert_eq!(names(&diagnose(&evidence)), Vec::<&str>::new());
}

/// Posted, done, consumed; quiet for so long and tested a thousand times a second.
fn channel(side: Side, [posted, done, consumed]: [u64; 3], quiet_ms: u64) -> Channel {
    let now = ChannelNow {
        side,
        posted,
        done,
        consumed,
        quiet_ms,
        ..ChannelNow::default()
    };
    Channel {
        now,
        nic: "eth1".into(),
        watched: Some(Watched {
            ms: 3000.0,
            tests: 3000,
            in_one_call: false,
            ..Watched::default()
        }),
    }
}

/// `local`, `peer gpu 3`, as runs name them.
fn node(name: &str, channels: Vec<Channel>) -> Node {
    let (end, gpu) = name
        .split_once(" gpu ")
        .map_or((name, None), |(end, gpu)| (end, gpu.parse().ok()));
    let (node, pair) = (NodeId(u32::from(end == "peer")), PairId(gpu.unwrap_or(0)));
    let subject = Subject {
        node,
        pair: Some(pair),
        pid: None,
        name: name.into(),
    };
    let (phase, sampled_ms) = (Some(Phase::Measuring), Some(9000.0));
    Node {
        lanes: vec![Lane::from(gpu)],
        phase,
        sampled_ms,
        channels,
        ..Node::new(subject)
    }
}

fn pair(send: Channel, recv: Channel) -> Evidence {
    let nodes = vec![node("local", vec![send]), node("peer", vec![recv])];
    Evidence {
        stall_after_ms: 3000,
        now_ms: 9000.0,
        nodes,
        ..Evidence::default()
    }
}

/// Both ends have requests in flight, and both are tested.
fn stuck() -> Evidence {
    pair(
        channel(Side::Send, [40, 28, 28], 4000),
        channel(Side::Recv, [44, 28, 28], 4000),
    )
}

fn ended(outcome: Outcome, evidence: Evidence) -> Evidence {
    Evidence {
        outcome: Some(outcome),
        ..evidence
    }
}

fn line(signature: &str, text: &str) -> Line {
    Line {
        signature: Some(signature.into()),
        severity: LineSeverity::Error,
        text: text.into(),
        count: 1,
        first_ms: 5000.0,
        last_ms: 5000.0,
        phase: Some(Phase::Measuring),
    }
}

fn failure(phase: Phase, message: &str, follows: bool) -> Option<At<Failure>> {
    let message = message.to_owned();
    let what = Failure {
        outcome: Outcome::Failed,
        phase,
        message,
        next_step: None,
        follows,
    };
    Some(At {
        at_ms: 6000.0,
        what,
    })
}

fn sender_silent() -> Evidence {
    pair(
        channel(Side::Send, [28, 28, 28], 9000),
        channel(Side::Recv, [44, 28, 28], 4000),
    )
}

fn receiver_silent() -> Evidence {
    pair(
        channel(Side::Send, [40, 28, 28], 4000),
        channel(Side::Recv, [28, 28, 28], 9000),
    )
}

fn window_full_only() -> Evidence {
    let mut scenario = Scenario::default();
    scenario.progress.policy = Policy::WindowFullOnly;
    let mut recv = channel(Side::Recv, [36, 28, 28], 4000);
    recv.watched = Some(Watched {
        ms: 3000.0,
        tests: 0,
        in_one_call: false,
        ..Watched::default()
    });
    Evidence {
        scenario: Some(scenario),
        ..pair(channel(Side::Send, [40, 28, 28], 4000), recv)
    }
}

fn completions_missing() -> Evidence {
    let mut evidence = pair(
        channel(Side::Send, [40, 28, 28], 4000),
        channel(Side::Recv, [56, 40, 40], 4000),
    );
    evidence.nodes[0].lines = vec![line(
        "tx-completion-timeout",
        "tx comp timeout poll upper 6, lower 0",
    )];
    evidence
}

fn chunk_sizes() -> Evidence {
    let mut evidence = stuck();
    evidence.nodes[0].channels[0].now.bytes_posted = 40 << 20;
    evidence.nodes[1].channels[0].now.bytes_posted = 44 << 19;
    evidence
}

fn settings_differ() -> Evidence {
    let mut evidence = ended(
        Outcome::Failed,
        pair(
            channel(Side::Send, [0; 3], 0),
            channel(Side::Recv, [0; 3], 0),
        ),
    );
    let why = "the two ends differ in NCCL_NSOCKS_PERTHREAD: 4 here, 1 there";
    evidence.nodes[0].failure = failure(Phase::Bootstrapping, why, false);
    evidence
}

fn accept_budget() -> Evidence {
    let mut evidence = ended(
        Outcome::Failed,
        pair(
            channel(Side::Send, [0; 3], 0),
            channel(Side::Recv, [0; 3], 0),
        ),
    );
    let text = "Failed to accept connection for channel 4 after 100 retries";
    evidence.nodes[1].lines = vec![line("harness-accept-gave-up", text)];
    evidence
}

fn machine(roots: &[Option<&str>]) -> Machine {
    let nic = |name: &str, root: &str| Nic {
        name: name.into(),
        up: true,
        mbit_per_s: Some(200_000),
        pci_root: Some(root.into()),
    };
    Machine {
        host: None,
        nics: vec![nic("eth1", "pci0000:01"), nic("eth2", "pci0000:07")],
        gpu_roots: roots.iter().map(|root| root.map(str::to_owned)).collect(),
    }
}

fn wrong_gpu() -> Evidence {
    let mut scenario = Scenario::default();
    scenario.topology.processes = Processes::Single;
    let mut evidence = Evidence {
        scenario: Some(scenario),
        ..stuck()
    };
    let mut second = evidence.nodes[1].channels[0].clone();
    second.now.index = 1;
    evidence.nodes[1].channels.push(second);
    evidence.nodes[1].listened_on_gpus = [7].into();
    evidence.nodes[1].machine = Some(machine(&[None; 8]));
    evidence
}

fn exit(code: Option<i32>) -> Option<At<Exit>> {
    let phase = Phase::Measuring;
    let what = Exit {
        code,
        signal: None,
        killed: false,
        phase,
        in_call: None,
        channels: Vec::new(),
    };
    Some(At {
        at_ms: 5500.0,
        what,
    })
}

fn plugin_exit() -> Evidence {
    let mut evidence = ended(
        Outcome::PluginDied,
        pair(
            channel(Side::Send, [40, 28, 28], 10),
            channel(Side::Recv, [0; 3], 0),
        ),
    );
    evidence.nodes[1].exit = exit(Some(1));
    evidence.nodes[0].failure =
        failure(Phase::Measuring, "test returned 2 (ncclSystemError)", true);
    evidence
}

/// Its last counters were taken while it was inside `test`, and again when it was gone.
fn killed_inside_a_call() -> Evidence {
    let mut evidence = plugin_exit();
    evidence.nodes.swap(0, 1);
    let gone = &mut evidence.nodes[0];
    gone.exit = exit(None);
    if let Some(exit) = &mut gone.exit {
        exit.what.signal = Some(libc::SIGKILL);
    }
    let mut inside = channel(Side::Send, [40, 28, 28], 20);
    inside.watched = Some(Watched {
        ms: 20.0,
        tests: 0,
        in_one_call: true,
        ..Watched::default()
    });
    inside.now.in_call = Some("test".into());
    gone.channels = vec![inside];
    evidence.nodes[1].channels = vec![channel(Side::Recv, [44, 28, 28], 20)];
    evidence
}

fn reset_in_flight() -> Evidence {
    let mut evidence = ended(
        Outcome::Failed,
        pair(
            channel(Side::Send, [40, 28, 28], 10),
            channel(Side::Recv, [44, 28, 28], 10),
        ),
    );
    evidence.nodes[1].channels[0].now.last_error = Some(("test".into(), 2));
    evidence.nodes[1].lines = vec![line(
        "ctrl-socket-closed",
        "Connection closed by remote peer",
    )];
    evidence
}

fn reset_only() -> Evidence {
    let mut evidence = pair(
        channel(Side::Send, [40, 40, 40], 10),
        channel(Side::Recv, [0; 3], 0),
    );
    evidence.nodes.truncate(1);
    let pid = Some(4242);
    evidence.nodes[0].subject = Subject {
        node: NodeId(0),
        pair: None,
        pid,
        name: "pid 4242".into(),
    };
    evidence.nodes[0].lines = vec![line(
        "data-socket-failed",
        "Call to socket op send(0) failed : Connection reset by peer",
    )];
    evidence
}

/// A stall at one end, because the other can no longer be told to go on.
fn control_lost() -> Evidence {
    let mut evidence = ended(Outcome::PeerLost, sender_silent());
    evidence.nodes[0].exit = exit(None);
    evidence.nodes[0].failure = failure(Phase::Measuring, "stopped while measuring", true);
    evidence
}

fn socket(local: &str, peer: &str, [recv_queue, send_queue]: [u32; 2], timeouts: u8) -> TcpSocket {
    let address = |text: &str| text.parse().expect("an address");
    let flow = TcpFlow {
        timeouts,
        probes: 0,
        unacked: 40,
        lost: 1,
        rto_us: 6_400_000,
        cwnd: 1,
        sent_ms_ago: 3000,
        received_ms_ago: 4000,
        not_sent: Some(0),
        peer_window_limited_us: Some(0),
    };
    TcpSocket {
        local: address(local),
        peer: address(peer),
        state: "ESTAB".into(),
        recv_queue,
        send_queue,
        retransmits: Some(5),
        rtt_us: Some(900),
        inode: 1,
        flow: Some(flow),
    }
}

fn frame(sockets: Vec<TcpSocket>, operstate: &str) -> Option<Box<Frame>> {
    let unknown = || Fact::unknown("not kept");
    Some(Box::new(Frame {
        schema: "tcpxctl.frame/1".into(),
        at_us: 1,
        took_ms: 9.0,
        pid: 7,
        in_call: None,
        channels: Vec::new(),
        sockets: Fact::Known(sockets),
        nics: vec![NicNow {
            name: "eth1".into(),
            operstate: Fact::Known(operstate.into()),
            counters: Vec::new(),
        }],
        threads: Fact::unknown("not kept"),
        kernel_log: unknown(),
        manager_log: unknown(),
    }))
}

fn network_loss() -> Evidence {
    let mut evidence = stuck();
    evidence.nodes[0].frame = frame(
        vec![socket(
            "10.0.1.25:40000",
            "10.0.0.226:50000",
            [0, 400_000],
            5,
        )],
        "up",
    );
    evidence.nodes[1].frame = frame(
        vec![socket("10.0.0.226:50000", "10.0.1.25:40000", [0, 0], 0)],
        "up",
    );
    evidence
}

fn link_down() -> Evidence {
    let mut evidence = network_loss();
    evidence.nodes[1].frame = frame(Vec::new(), "down");
    evidence
}

/// The settings may be why, and may not.
pub(super) fn stuck_with_other_settings() -> Evidence {
    let mut evidence = stuck();
    for (node, value) in evidence.nodes.iter_mut().zip(["4", "1"]) {
        node.settings
            .insert("NCCL_NSOCKS_PERTHREAD".into(), value.into());
    }
    evidence
}

fn one_rail_of_two() -> Evidence {
    let mut evidence = stuck();
    for (node, counts) in [(0, [64, 64, 64]), (1, [64, 64, 64])] {
        let mut good = channel(
            if node == 0 { Side::Send } else { Side::Recv },
            counts,
            5000,
        );
        (good.now.index, good.nic) = (1, "eth2".into());
        evidence.nodes[node].channels.push(good);
        let mut second = evidence.nodes[node].channels[0].clone();
        second.now.index = 2;
        evidence.nodes[node].channels.push(second);
    }
    evidence
}

fn on_gpu(evidence: Evidence) -> Evidence {
    let mut evidence = evidence;
    for node in &mut evidence.nodes {
        node.subject.name.push_str(" gpu 2");
        node.lanes = vec![Lane::Gpu(2)];
        node.plugin = Some("GPUDirectTCPX_v7 3.1.9".into());
        node.family = Some(tcpx_words::plugin_family::PluginFamily::Tcpx);
    }
    evidence
}

fn passed() -> Evidence {
    ended(
        Outcome::Passed,
        pair(
            channel(Side::Send, [64, 64, 64], 10),
            channel(Side::Recv, [64, 64, 64], 10),
        ),
    )
}

fn far_nic() -> Evidence {
    let mut evidence = on_gpu(passed());
    evidence.nodes[1].machine = Some(machine(&[None, None, Some("pci0000:07")]));
    evidence
}

fn same_host() -> Evidence {
    let mut evidence = on_gpu(passed());
    let host = Host {
        name: Fact::Known("node0".into()),
        kernel: Fact::unknown("not read"),
        boot_id: Fact::Known("one".into()),
        network_namespace: Fact::Known(1),
    };
    for node in &mut evidence.nodes {
        node.machine = Some(Machine {
            host: Some(host.clone()),
            ..Machine::default()
        });
    }
    evidence
}

fn too_fast() -> Evidence {
    let mut evidence = passed();
    evidence.nodes[1].machine = Some(machine(&[]));
    evidence.moved = vec![Moved {
        pair: PairId(0),
        from: NodeId(0),
        to: NodeId(1),
        bytes: 40_000_000_000,
        seconds: 1.0,
    }];
    evidence
}

fn chatty() -> Evidence {
    let mut evidence = passed();
    evidence.nodes[1].logged = Some(90_000);
    evidence
}

fn nothing_to_see() -> Evidence {
    let idle = pair(
        channel(Side::Send, [28, 28, 28], 4000),
        channel(Side::Recv, [28, 28, 28], 4000),
    );
    ended(Outcome::Stalled, idle)
}
