//! What crosses machines, tried between the two nodes of `scripts/lab`; and the
//! lab itself, whose every promise the other tests rely on.
//!
//! Each test has a lab of its own. Without namespaces or sshd the tests print why
//! and pass, unless `TCPXCTL_LAB=require`. What needs two nodes and no lab script
//! belongs in `tests/run`.

mod doctor;
mod hurts;
mod join;
mod keys;
mod life;
mod losses;
mod nodes;
mod one_node;
mod peer;
mod reach;
mod sockets;
mod topologies;
mod watch;

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
