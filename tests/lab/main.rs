//! Tests between the two nodes of `scripts/lab`, and tests of the lab itself.
//!
//! Each test has its own lab. Without namespaces or sshd the tests print the reason and pass,
//! unless `TCPXCTL_LAB=require` is set. A test with several nodes that needs no lab belongs in
//! `tests/run`.

mod doctor;
mod hurts;
mod join;
mod keys;
mod launchers;
mod life;
mod losses;
mod mesh;
mod nodes;
mod one_node;
mod peer;
mod reach;
mod sockets;
mod topologies;
mod watch;

#[path = "../support/built.rs"]
mod built;
#[path = "../support/lab.rs"]
mod lab;
#[allow(dead_code, reason = "shared with tests/run, which uses more of it")]
#[path = "../support/strict.rs"]
mod strict;
#[allow(dead_code, reason = "shared with tests/run, which uses more of it")]
#[path = "../support/tcpxctl.rs"]
mod tcpxctl;
#[allow(dead_code, reason = "shared with tests/run, which uses more of it")]
#[path = "../support/terminal.rs"]
mod terminal;
