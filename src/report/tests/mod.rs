//! Reports of made-up runs, in every format.

pub(crate) mod fixture;
mod known;
mod kv;
mod mesh;
mod planted;
mod programs;
mod renders;
pub(crate) use renders::stalled_story;
mod sample;
mod secrets;
mod three;
mod trial;
mod versions;
