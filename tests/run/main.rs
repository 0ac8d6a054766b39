//! Tests of the real binary with real processes and sockets, and every way in which a run can end.

mod bad_input;
mod discover;
mod doctor;
mod endings;
mod endpoints;
mod export;
mod failures;
mod faults;
mod fleet;
mod freedoms;
mod handshake;
mod kv;
mod lanes;
mod launchers;
mod logs;
mod mesh;
mod page;
mod passes;
mod plugin_files;
mod record;
mod rehearse;
mod report;
mod stalls;
mod strangers;
mod strict_plugin;
mod tap;
mod three_nodes;
mod trace;
mod watch;

#[path = "../support/built.rs"]
mod built;
#[path = "../support/junit.rs"]
mod junit;
#[path = "../support/strict.rs"]
mod strict;
#[path = "../support/tcpxctl.rs"]
mod tcpxctl;
#[path = "../support/terminal.rs"]
mod terminal;
