//! Charts as SVG text, 960 units wide and readable without colour.
//!
//! Lines differ by dash pattern and by the name at their end, levels by lightness, marks by
//! shape. Colours for light mode, dark mode and print come from the page's style sheet. Every
//! axis shows its unit.
#![forbid(unsafe_code)]

mod bars;
mod heat;
mod lines;
mod matrix;
mod requests;
mod scale;

pub(super) use bars::{Dot, dots, histogram};
pub(super) use heat::heat;
pub(super) use lines::{ChartLine, lines};
pub(super) use matrix::{MatrixCell, MatrixLabel, matrix};
pub(super) use requests::requests;
pub(super) use scale::{duration, seconds};
