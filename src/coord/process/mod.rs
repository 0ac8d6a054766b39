//! Worker processes: starting them with their streams, reading their messages, and killing them
//! together with the processes they forked.

pub(crate) mod leftovers;
pub(crate) mod no_cpu;
pub(crate) mod spawn;
pub(crate) mod supervise;
pub(crate) mod tree;
