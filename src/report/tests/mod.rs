//! A run of nodes that never were, told in every form.

mod fixture;
mod renders;
mod sample;
mod secrets;
mod three;
mod versions;
