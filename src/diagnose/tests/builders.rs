//! Parts of evidence for the cases of the rules: counters, lines, sockets and facts.

use crate::evidence::*;
use tcpx_logs::Severity as LineSeverity;
use tcpx_node::{Fact, NicNow, TcpFlow, TcpSocket};
use tcpx_run_model::counters::{ChannelNow, Frame};
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{Lane, NodeId, PairId};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

/// Posted, done, consumed; quiet for so long and tested a thousand times a second.
pub(crate) fn channel(
    side: Side,
    [posted, done, consumed]: [u64; 3],
    quiet_ms: u64,
) -> EvidenceChannel {
    let now = ChannelNow {
        side,
        posted,
        done,
        consumed,
        quiet_ms,
        ..ChannelNow::default()
    };
    EvidenceChannel {
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
pub(crate) fn node(name: &str, channels: Vec<EvidenceChannel>) -> EvidenceNode {
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
    EvidenceNode {
        lanes: vec![Lane::from(gpu)],
        phase,
        sampled_ms,
        channels,
        ..EvidenceNode::new(subject)
    }
}

pub(crate) fn pair(send: EvidenceChannel, recv: EvidenceChannel) -> Evidence {
    let nodes = vec![node("local", vec![send]), node("peer", vec![recv])];
    Evidence {
        stall_after_ms: 3000,
        now_ms: 9000.0,
        nodes,
        ..Evidence::default()
    }
}

/// Both ends have requests in flight, and both are tested.
pub(crate) fn stuck() -> Evidence {
    pair(
        channel(Side::Send, [40, 28, 28], 4000),
        channel(Side::Recv, [44, 28, 28], 4000),
    )
}

pub(crate) fn ended(outcome: Outcome, evidence: Evidence) -> Evidence {
    Evidence {
        outcome: Some(outcome),
        ..evidence
    }
}

pub(crate) fn line(signature: &str, text: &str) -> SignatureLines {
    SignatureLines {
        signature: Some(signature.into()),
        severity: LineSeverity::Error,
        text: text.into(),
        count: 1,
        first_ms: 5000.0,
        last_ms: 5000.0,
        phase: Some(Phase::Measuring),
    }
}

pub(crate) fn failure(phase: Phase, message: &str, follows: bool) -> Option<Timed<Failure>> {
    let message = message.to_owned();
    let what = Failure {
        outcome: Outcome::Failed,
        phase,
        message,
        next_step: None,
        follows,
    };
    Some(Timed {
        at_ms: 6000.0,
        what,
    })
}

pub(crate) fn sender_silent() -> Evidence {
    pair(
        channel(Side::Send, [28, 28, 28], 9000),
        channel(Side::Recv, [44, 28, 28], 4000),
    )
}

pub(crate) fn machine(roots: &[Option<&str>]) -> EvidenceMachine {
    let nic = |name: &str, root: &str| EvidenceNic {
        name: name.into(),
        up: true,
        down: None,
        mbit_per_s: Some(200_000),
        pci_root: Some(root.into()),
    };
    EvidenceMachine {
        host: None,
        nics: vec![nic("eth1", "pci0000:01"), nic("eth2", "pci0000:07")],
        gpu_roots: roots.iter().map(|root| root.map(str::to_owned)).collect(),
    }
}

pub(crate) fn exit(code: Option<i32>) -> Option<Timed<Exit>> {
    let phase = Phase::Measuring;
    let what = Exit {
        code,
        signal: None,
        killed: false,
        phase,
        in_call: None,
        channels: Vec::new(),
    };
    Some(Timed {
        at_ms: 5500.0,
        what,
    })
}

pub(crate) fn socket(
    local: &str,
    peer: &str,
    [recv_queue, send_queue]: [u32; 2],
    timeouts: u8,
) -> TcpSocket {
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
        data_segments: None,
        duplicates: None,
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

pub(crate) fn frame(sockets: Vec<TcpSocket>, operstate: &str) -> Option<Box<Frame>> {
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
        addresses: Fact::unknown("not kept"),
        threads: Fact::unknown("not kept"),
        kernel_log: unknown(),
        manager_log: unknown(),
    }))
}

/// The settings may be why, and may not.
pub(crate) fn stuck_with_other_settings() -> Evidence {
    let mut evidence = stuck();
    for (node, value) in evidence.nodes.iter_mut().zip(["4", "1"]) {
        node.settings
            .insert("NCCL_NSOCKS_PERTHREAD".into(), value.into());
    }
    evidence
}

pub(crate) fn on_gpu(evidence: Evidence) -> Evidence {
    let mut evidence = evidence;
    for node in &mut evidence.nodes {
        node.subject.name.push_str(" gpu 2");
        node.lanes = vec![Lane::Gpu(2)];
        node.plugin = Some("GPUDirectTCPX_v7 3.1.9".into());
        node.family = Some(tcpx_words::plugin_family::PluginFamily::Tcpx);
    }
    evidence
}

pub(crate) fn passed() -> Evidence {
    ended(
        Outcome::Passed,
        pair(
            channel(Side::Send, [64, 64, 64], 10),
            channel(Side::Recv, [64, 64, 64], 10),
        ),
    )
}
