//! The help overlay: keys and glyphs.
#![forbid(unsafe_code)]

use crate::canvas::Pen;
use crate::keys;
use crate::theme::{Ink, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Clear, Widget};

const WIDTH: u16 = 74;

pub(super) fn draw(buffer: &mut Buffer, area: Rect, theme: Theme) {
    let help = keys::help();
    let height = (help.len() as u16 + 6).min(area.height);
    let width = WIDTH.min(area.width);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, buffer);
    let rule = theme.rule().repeat(usize::from(width));
    Pen::at(buffer, theme, place, 0).write(Ink::Faint, &rule);
    Pen::at(buffer, theme, place, height.saturating_sub(1)).write(Ink::Faint, &rule);
    let inside = Rect {
        y: place.y + 1,
        height: height.saturating_sub(2),
        ..place
    };
    for ((keys, words), row) in help.iter().zip(0..) {
        Pen::at(buffer, theme, inside, row)
            .write(Ink::Strong, format!("  {keys:<24}"))
            .write(Ink::Plain, words);
    }
    let row = help.len() as u16 + 1;
    let mut pen = Pen::at(buffer, theme, inside, row);
    pen.write(Ink::Plain, "  slots:  ");
    for (stage, word) in [
        ('d', "done, not consumed"),
        ('u', "unpacked"),
        ('p', "posted"),
        (' ', "free"),
    ] {
        let (glyph, ink) = theme.slot(stage);
        pen.write(ink, glyph.repeat(2))
            .write(Ink::Plain, format!(" {word}  "));
    }
    Pen::at(buffer, theme, inside, row + 1).write(
        Ink::Plain,
        "  infl: in flight   head: age of the oldest   change: since last change",
    );
    Pen::at(buffer, theme, inside, row + 2).write(Ink::Faint, "  press any key to close");
}
