//! Charts as SVG text: made for a page of 960 units, readable without colour.
//!
//! Lines differ by dash and by the name at their end, levels by lightness, marks
//! by shape; colours come from the page's style sheet, so light, dark and print
//! are its business. Every axis has its unit.
#![forbid(unsafe_code)]

mod bars;
mod heat;
mod lines;
mod requests;
mod scale;

pub(super) use bars::{Dot, dots, histogram};
pub(super) use heat::heat;
pub(super) use lines::{Line, lines};
pub(super) use requests::requests;
pub(super) use scale::{duration, seconds};
