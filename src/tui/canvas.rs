//! Writing text to a buffer, cut at the end of its area.
#![forbid(unsafe_code)]

use super::theme::{Ink, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A line of an area that text is appended to.
pub(crate) struct Pen<'a> {
    buffer: &'a mut Buffer,
    theme: Theme,
    x: u16,
    y: u16,
    end: u16,
    selected: bool,
}

impl<'a> Pen<'a> {
    /// A pen at the beginning of line `row` of `area`. Below the area nothing is drawn.
    pub(crate) fn at(buffer: &'a mut Buffer, theme: Theme, area: Rect, row: u16) -> Self {
        let area = area.intersection(buffer.area);
        let end = if row < area.height {
            area.right()
        } else {
            area.left()
        };
        Self {
            buffer,
            theme,
            x: area.left(),
            y: area.top().saturating_add(row),
            end,
            selected: false,
        }
    }

    /// Draws the whole line as selected.
    pub(crate) fn selected(mut self, selected: bool) -> Self {
        self.selected = selected;
        if selected {
            let style = self.theme.style(Ink::Selected);
            self.buffer
                .set_style(Rect::new(self.x, self.y, self.end - self.x, 1), style);
        }
        self
    }

    /// Columns left on the line.
    pub(crate) fn left(&self) -> usize {
        usize::from(self.end - self.x)
    }

    pub(crate) fn write(&mut self, ink: Ink, text: impl AsRef<str>) -> &mut Self {
        if self.x < self.end {
            let mut style = self.theme.style(ink);
            if self.selected {
                let over = self.theme.style(Ink::Selected);
                style.bg = over.bg;
                style.add_modifier |= over.add_modifier;
                if style.fg.is_none() || ink == Ink::Faint {
                    style.fg = over.fg;
                }
            }
            let (x, _) = self
                .buffer
                .set_stringn(self.x, self.y, text.as_ref(), self.left(), style);
            self.x = x;
        }
        self
    }

    /// Writes text at the right end of the line, if it fits.
    pub(crate) fn right(&mut self, ink: Ink, text: &str) -> &mut Self {
        let width = text.chars().count();
        if width <= self.left() {
            self.x = self.end - width as u16;
            self.write(ink, text);
        }
        self
    }

    /// Fills the rest of the line.
    pub(crate) fn fill(&mut self, ink: Ink, with: &str) {
        let left = self.left();
        self.write(ink, with.repeat(left));
    }
}

/// A count in at most `width` columns: exact if that fits, otherwise such as `12.3M`.
pub(crate) fn count(number: u64, width: usize) -> String {
    let exact = number.to_string();
    if exact.len() <= width {
        return exact;
    }
    let units = [('k', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12), ('P', 1e15)];
    let fits = |(suffix, unit): (char, f64)| {
        let value = number as f64 / unit;
        let texts = [format!("{value:.1}{suffix}"), format!("{value:.0}{suffix}")];
        texts
            .into_iter()
            .find(|text| text.len() <= width && (1.0..1000.0).contains(&value))
    };
    units.into_iter().find_map(fits).unwrap_or(exact)
}

/// A duration in at most six columns: `12ms`, `4.2s`, `3m07s`.
pub(crate) fn age(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..100_000 => format!("{:.1}s", ms as f64 / 1e3),
        100_000..6_000_000 => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
        6_000_000..360_000_000 => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// A short duration: `850ns`, `12us`, `4.2ms`, `1.3s`.
pub(crate) fn short(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns}ns"),
        1000..1_000_000 => format!("{}us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{:.1}ms", ns as f64 / 1e6),
        _ => format!("{:.1}s", ns as f64 / 1e9),
    }
}

/// A rate in 10^9 bytes per second, with up to four significant digits.
pub(crate) fn gb(bytes_per_s: f64) -> String {
    let gb = bytes_per_s / 1e9;
    match gb {
        gb if gb < 0.0005 => "0".to_owned(),
        gb if gb < 10.0 => format!("{gb:.3}"),
        gb if gb < 100.0 => format!("{gb:.2}"),
        gb => format!("{gb:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_while_they_fit() {
        assert_eq!(count(12_345_678, 8), "12345678");
        assert_eq!(count(123_456_789, 8), "123.5M");
        assert_eq!(count(123_456_789, 5), "123M");
        assert_eq!(
            (count(12_345, 4), count(12_345, 5)),
            ("12k".into(), "12345".into())
        );
        assert!(
            [0, 9, 1234, 99_999, u64::MAX]
                .into_iter()
                .all(|number| count(number, 6).len() <= 6 || number == u64::MAX)
        );
        assert_eq!(
            (age(12), age(4200), age(187_000), age(u64::MAX).len() > 3),
            ("12ms".into(), "4.2s".into(), "3m07s".into(), true)
        );
        assert_eq!(
            (short(850), short(12_300), short(4_200_000)),
            ("850ns".into(), "12us".into(), "4.2ms".into())
        );
        assert_eq!(
            (gb(0.0), gb(5.611e9), gb(83.2e9)),
            ("0".into(), "5.611".into(), "83.20".into())
        );
    }
}
