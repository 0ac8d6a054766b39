//! Reports of made-up runs, in every format.

mod fixture;
mod renders;
mod sample;
mod secrets;
mod three;
mod versions;
