//! The live view of a node on another machine.

use crate::lab::Lab;
use crate::terminal::Terminal;

const STALL: &str = "name = \"stall\"\n[transfer]\nconnections = 2\nchunk = \"64KiB\"\ntotal = \"8MiB\"\niterations = 5\n\
[limits]\nstall_after = \"1s\"\ngive_up_after = \"20s\"\n\
[fault]\nby = \"driver\"\nside = \"recv\"\nkind = \"never-consumed\"\nchannel = 1\nafter_chunk = 40\n";

/// Each agent reads its node's recorders: the nodes share no `/dev/shm`.
#[test]
fn a_stalled_channel_of_either_node_is_shown_in_detail() {
    let Some(lab) = Lab::up() else { return };
    let Some(terminal) = Terminal::open(110, 32) else {
        return;
    };
    std::fs::write(lab.path("node0", "/tmp/stall.toml"), STALL).unwrap();
    terminal.type_line(&format!(
        "clear; TCPXCTL_LAB_NAME={} {} exec node0 env -C /tmp {} run stall.toml --peer node1 --plugin builtin --live",
        lab.name(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/lab"),
        env!("CARGO_BIN_EXE_tcpxctl"),
    ));
    terminal.shows("the receiver's turn");
    for (keys, channel) in [
        (["n"].as_slice(), "── peer recv 1"),
        (&["Home", "Down"], "── local send 0"),
    ] {
        keys.iter()
            .chain(&["Enter"])
            .for_each(|key| terminal.press(key));
        terminal.shows(channel);
        let screen = terminal.shows("last calls");
        assert!(screen.contains(channel), "{screen}");
        terminal.press("Escape");
        terminal.shows_no_more("last calls");
    }
    terminal.press("C-c");
    terminal.shows("Outcome : interrupted");
    lab.is_left_clean();
}
