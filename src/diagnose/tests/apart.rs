//! What belongs together: which process explains another, and what a process that was ended by
//! its agent shows.

use super::*;
use tcpx_run_model::finding::Subject;

/// A process with both ends of one channel.
fn process(pid: u32, port: u16, send: EvidenceChannel, recv: EvidenceChannel) -> EvidenceNode {
    let (mut send, mut recv) = (send, recv);
    send.now.peer = Some(format!("10.0.1.25:{port}"));
    recv.now.local = send.now.peer.clone();
    let subject = Subject {
        node: NodeId(0),
        pair: None,
        pid: Some(pid),
        name: format!("pid {pid}"),
    };
    EvidenceNode {
        subject,
        ..node("local", vec![send, recv])
    }
}

fn untested(mut channel: EvidenceChannel) -> EvidenceChannel {
    channel.watched = channel.watched.map(|watched| Watched {
        tests: 0,
        ..watched
    });
    channel
}

/// One process never consumes, and another never tests its receives.
fn two_programs() -> Evidence {
    let sends = || channel(Side::Send, [232, 216, 216], 8000);
    let unconsumed = channel(Side::Recv, [216, 216, 200], 8000);
    let untested = untested(channel(Side::Recv, [216, 200, 200], 8000));
    Evidence {
        stall_after_ms: 3000,
        now_ms: 9000.0,
        nodes: vec![
            process(41, 4000, sends(), unconsumed),
            process(42, 4001, sends(), untested),
        ],
        ..Evidence::default()
    }
}

#[test]
fn processes_that_are_not_connected_do_not_explain_each_other() {
    let findings = diagnose(&two_programs());
    assert_eq!(
        names(&findings),
        ["window-never-consumed", "polls-others-only"]
    );
    for finding in &findings {
        assert_eq!(finding.severity, Severity::Error, "{finding:#?}");
        let said = [&finding.because[..], &finding.cannot_see]
            .concat()
            .join("; ");
        assert!(
            !said.contains("it follows from") && !said.contains("instead"),
            "{said}"
        );
    }
    // The first also sends to the second.
    let mut evidence = two_programs();
    for (at, side) in [Side::Send, Side::Recv].into_iter().enumerate() {
        let mut channel = channel(side, [400, 390, 390], 10);
        channel.now.index = 1;
        let address = match side {
            Side::Send => &mut channel.now.peer,
            Side::Recv => &mut channel.now.local,
        };
        *address = Some("10.0.1.25:4002".into());
        evidence.nodes[at].channels.push(channel);
    }
    let findings = diagnose(&evidence);
    assert!(
        findings[1]
            .because
            .contains(&"it follows from window-never-consumed".to_owned()),
        "{findings:#?}"
    );
}

#[test]
fn a_guess_from_one_end_says_that_the_other_was_not_inspected() {
    let mut evidence = two_programs();
    evidence.nodes.truncate(1);
    let one = &mut evidence.nodes[0];
    let mut moving = channel(Side::Send, [400, 390, 390], 10);
    (moving.now.index, moving.nic) = (1, "eth2".into());
    one.channels = vec![channel(Side::Send, [64, 52, 52], 8000), moving];
    let findings = diagnose(&evidence);
    assert_eq!(names(&findings), ["rail-carries-nothing"]);
    let unseen = findings[0].cannot_see.join("; ");
    assert!(
        unseen.contains("the other end: it was not inspected"),
        "{findings:#?}"
    );
}
