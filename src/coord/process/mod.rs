//! Worker processes: started with their streams, heard, and ended with whatever
//! they forked.

pub(crate) mod spawn;
pub(crate) mod supervise;
