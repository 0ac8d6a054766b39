//! What programs that drive the plugin themselves did, by their own lines: the P2P harness with
//! its sliding window, UCCL's P2P benchmark, nixlbench.
#![forbid(unsafe_code)]

mod line;
mod table;
mod text;
