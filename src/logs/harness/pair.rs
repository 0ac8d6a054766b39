//! What the logs of both ends come to together: whose turn it is.
//!
//! A send of GPU memory is done when its bytes were acknowledged, so they have reached the
//! receiver's kernel. That, and how far each end came, is all that decides a turn.
#![forbid(unsafe_code)]

use super::line::{HarnessRole, Step};
use super::program::{Program, Spot};
use super::report::{HarnessState, HarnessVerdict};
use super::verdict::{Case, DONE_NOT_RELEASED, Side, case, reached_log_limit};

/// The verdict on a server and its client.
pub(super) fn both(server: &Side<'_>, client: &Side<'_>) -> HarnessVerdict {
    let (of_server, of_client) = (case(server), case(client));
    let differences = differences(server.program, client.program);
    let case = match (of_server.state, of_client.state) {
        (HarnessState::Failed, HarnessState::Failed) => {
            first_failure(server, client, of_server, of_client)
        }
        (HarnessState::Failed, _) => blame(of_server, server, client),
        (_, HarnessState::Failed) => blame(of_client, client, server),
        (HarnessState::Waits, HarnessState::Waits) => waits(server, client, of_server, of_client),
        (HarnessState::Waits, _) => ended_first(client, server, of_server),
        (_, HarnessState::Waits) => ended_first(server, client, of_client),
        (HarnessState::Doubtful, _) | (HarnessState::Finished, HarnessState::Finished) => of_server,
        (HarnessState::Finished, HarnessState::Doubtful) => of_client,
    };
    let mut verdict = with_differences(case, &differences).verdict(&[server, client]);
    verdict.because.splice(0..0, differences);
    verdict
}

/// Settings that must agree and do not.
fn differences(server: &Program, client: &Program) -> Vec<String> {
    let settings = [
        (
            "bytes of an iteration",
            server.size_bytes,
            client.size_bytes,
        ),
        ("chunk bytes", server.chunk_bytes, client.chunk_bytes),
        (
            "iterations",
            server.iterations_wanted,
            client.iterations_wanted,
        ),
        (
            "bootstrap port",
            server.first_port.map(u64::from),
            client.first_port.map(u64::from),
        ),
    ];
    let differs = settings.into_iter().filter_map(|(what, server, client)| {
        let (server, client) = server
            .zip(client)
            .filter(|(server, client)| server != client)?;
        Some(format!(
            "{what}: {server} at the server, {client} at the client"
        ))
    });
    differs.collect()
}

fn with_differences(case: Case, differences: &[String]) -> Case {
    let waits = case.state == HarnessState::Waits;
    let Some(first) = differences.first().filter(|_| waits) else {
        return case;
    };
    let summary = format!(
        "the two ends were started with different settings ({first}); {}",
        case.summary
    );
    Case {
        condition: "settings-differ",
        summary,
        turn: None,
        ..case
    }
    .next("start both ends with the same sizes, chunks, iterations and ports")
}

/// The first of two failures; the other follows it.
fn first_failure(server: &Side<'_>, client: &Side<'_>, of_server: Case, of_client: Case) -> Case {
    let is_consequence = |case: &Case| case.condition == "peer-closed";
    let at = |side: &Side<'_>| {
        side.program
            .failure
            .as_ref()
            .and_then(|(_, quoted)| quoted.time_us)
    };
    let client_first = match (is_consequence(&of_server), is_consequence(&of_client)) {
        (true, false) => true,
        (false, true) => false,
        _ => at(client)
            .zip(at(server))
            .is_some_and(|(client, server)| client < server),
    };
    let is_known = is_consequence(&of_server) != is_consequence(&of_client)
        || at(client).zip(at(server)).is_some();
    let case = if client_first {
        blame(of_client, client, server)
    } else {
        blame(of_server, server, client)
    };
    if is_known {
        case
    } else {
        case.unseen("which end failed first: no line has a time")
    }
}

/// One end failed, and the other one noticed or waits for it.
fn blame(case: Case, failed: &Side<'_>, other: &Side<'_>) -> Case {
    let turn = if case.condition == "peer-closed" {
        role(other)
    } else {
        role(failed)
    };
    let name = role(failed).map_or("one end", HarnessRole::name);
    let summary = match other.program.spot {
        Spot::Ended => format!(
            "the {name} failed after the other end had ended: {}",
            case.summary
        ),
        _ => format!(
            "the {name} failed: {}; the other end cannot go on without it",
            case.summary
        ),
    };
    Case { summary, ..case }.turn(turn)
}

fn role(side: &Side<'_>) -> Option<HarnessRole> {
    side.program.role
}

/// One end ended, and the other one still waits.
fn ended_first(ended: &Side<'_>, waits: &Side<'_>, case: Case) -> Case {
    let name = |side: &Side<'_>| role(side).map_or("other end", HarnessRole::name);
    let summary = format!(
        "the {} ended, and the {} still waits: {}",
        name(ended),
        name(waits),
        case.summary
    );
    Case::waits("peer-ended-first", summary)
        .next("compare the number and the sizes of the chunks of both ends: a request without its partner never completes")
        .next("keep the connection until both ends said that they have everything")
}

/// How far an end came; an end that is behind holds the other one up.
fn progress(spot: Spot) -> u32 {
    match spot {
        Spot::Starting => 0,
        Spot::Setup(
            Step::BootstrapListens(_)
            | Step::BootstrapConnects(_)
            | Step::Listens
            | Step::MeetsPeer,
        ) => 1,
        Spot::Setup(Step::HandlesExchanged | Step::Accepts | Step::Connects) => 2,
        Spot::Setup(Step::Accepted | Step::Connected | Step::Registers) => 3,
        Spot::Setup(Step::Registered | Step::WaitsForPosts) => 4,
        Spot::Transfer
        | Spot::InCall
        | Spot::WindowFull
        | Spot::Posted
        | Spot::Drain
        | Spot::Rates
        | Spot::Between
        | Spot::Ended => 5,
    }
}

fn waits(server: &Side<'_>, client: &Side<'_>, of_server: Case, of_client: Case) -> Case {
    let (at_server, at_client) = (progress(spot(server)), progress(spot(client)));
    // A log of tests alone does not show the setup.
    let is_transfer = |side: &Side<'_>, at: u32| at == 5 || at == 0 && side.program.tests.count > 0;
    if is_transfer(server, at_server) && is_transfer(client, at_client) {
        return in_transfer(server, client, of_server, of_client);
    }
    if at_server == at_client {
        let summary = format!(
            "both ends wait: {}; {}",
            of_server.summary, of_client.summary
        );
        return Case {
            summary,
            ..of_server
        };
    }
    let (behind, ahead) = if at_server < at_client {
        (of_server, of_client)
    } else {
        (of_client, of_server)
    };
    let turn = if at_server < at_client {
        HarnessRole::Server
    } else {
        HarnessRole::Client
    };
    let summary = format!(
        "{}; the other end is further: {}",
        behind.summary, ahead.summary
    );
    Case { summary, ..behind }.turn(Some(turn))
}

fn spot(side: &Side<'_>) -> Spot {
    side.program.spot
}

const COUNTERS: &str = "`ethtool -S ethN` on both nodes, twice: tx_bytes of the sender and rx_devmem_pkts of the receiver \
    say whether data leaves and reaches the GPU queues";
const RECV_Q: &str = "at the receiver: `ss -tm`: bytes in Recv-Q of the data sockets mean that its plugin does not read; \
    none, that the sender does not send";

/// The sender released more than the receiver completed.
fn more_sent(receiver: &Program, counts: &str) -> Case {
    if reached_log_limit(receiver) {
        let summary = format!(
            "the receiver waits for its oldest receive, and the sender released some sends and logs nothing more; {counts}"
        );
        return Case::waits("window-full", summary)
            .unseen("whose turn it is: the receiver may have completed receives after its last logged test")
            .next(RECV_Q);
    }
    let summary = format!(
        "{counts}: bytes of a send that is done are at the receiver, and its plugin has not completed the receives"
    );
    Case::waits("receiver-does-not-progress", summary)
        .turn(Some(HarnessRole::Server))
        .next(RECV_Q)
        .next(COUNTERS)
}

/// Both ends are in an iteration, and neither log goes on.
fn in_transfer(server: &Side<'_>, client: &Side<'_>, of_server: Case, of_client: Case) -> Case {
    if let Some(case) = [&of_server, &of_client]
        .into_iter()
        .find(|case| case.condition == "chunk-size-zero")
    {
        return Case::waits("chunk-size-zero", case.summary.clone())
            .next("set NCCL_DYNAMIC_CHUNK_SIZE=524288 on both nodes");
    }
    if of_server.condition == DONE_NOT_RELEASED {
        return of_server;
    }
    if of_client.condition == DONE_NOT_RELEASED {
        return of_client;
    }
    let (receiver, sender) = (server.program, client.program);
    let (received, sent) = (receiver.done(), sender.done());
    let begun = receiver
        .begun
        .zip(sender.begun)
        .filter(|(receiver, sender)| receiver != sender);
    let counts = format!("{sent} sends and {received} receives are done, by their lines");
    let case = if receiver.spot == Spot::Drain && sender.spot == Spot::Drain {
        Case::waits(
            "both-drain",
            format!("both ends drain and wait for each other; {counts}"),
        )
        .next("drain all channels in one loop at both ends, not one channel after the other")
        .next("compare the posts of each channel of both ends")
    } else if sent > received {
        more_sent(receiver, &counts)
    } else if sent > 0 || received > 0 {
        let summary = format!("the receiver waits for more than the sender has released; {counts}");
        let case = Case::waits("sender-stops", summary);
        // A sender that logs its first tests only may have released more.
        if reached_log_limit(sender) {
            case
        } else {
            case.turn(Some(HarnessRole::Client))
        }
    } else if sender.posted() == 0 && sender.tests.count == 0 {
        Case::waits(
            "sender-silent",
            "the receiver waits, and the sender logs no post and no test",
        )
        .unseen("whether the sender posts: not every program logs its posts")
    } else {
        Case::waits("nothing-moves", "both ends have posted, and no logged test of either found its oldest request done")
            .next("read the plugin's lines of both ends: `dynamic chunk size`, `receiver sync` (equal on both), steering rules")
            .next(COUNTERS)
    };
    let case = match begun {
        Some((receiver, sender)) => case.unseen(format!("why the ends are in different iterations: {receiver} at the server, {sender} at the client")),
        None => case,
    };
    case.progress_steps(if reached_log_limit(receiver) {
        receiver
    } else {
        sender
    })
}
